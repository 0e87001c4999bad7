//! A worker for tests of machines: starts the real agent with two pipes and speaks frames with it.
#![allow(dead_code)]

use sandpool_agent::channel::frame::{self, HEADER_BYTES, Kind};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// Longer than anything a test waits for; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

/// What either side may send before it hears of the first bytes taken.
pub const CREDIT_BYTES: usize = 1 << 20;

/// An id that no account of a usual machine has.
pub const NOBODY: u32 = 54_321;

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// One frame from the agent.
pub struct Frame {
    pub sequence: u32,
    pub kind: u16,
    pub head: Value,
    pub body: Vec<u8>,
}

/// What came on a stream.
#[derive(Default)]
pub struct Incoming {
    pub bytes: Vec<u8>,
    /// `{"end":true}` or `{"error"}`
    pub end: Option<Value>,
}

/// The agent, and this side of its pipes.
pub struct Agent {
    pub process: Child,
    pub folder: PathBuf,
    pub input: Option<ChildStdin>,
    frames: Receiver<Frame>,
    sequence: u32,
    stream: u64,
    replies: HashMap<u32, Frame>,
    pub streams: HashMap<u64, Incoming>,
    /// Bytes that the agent may still be sent, by stream.
    pub credit: HashMap<u64, usize>,
    pub cancelled: Vec<u64>,
    /// Whether what comes is paid for with credit at once.
    pub generous: bool,
}

/// How an exec ended, and its output.
pub struct Outcome {
    pub head: Value,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Whether this test runs as root; printed where something is skipped.
pub fn is_root(what: &str) -> bool {
    // SAFETY: takes no argument.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        println!("skipped without root: {what}");
    }
    root
}

impl Agent {
    /// A started machine.
    pub fn new() -> Self {
        Self::started(&json!({}))
    }

    /// A started machine with more members in its start.
    pub fn started(members: &Value) -> Self {
        let mut agent = Self::run(&mut Command::new(env!("CARGO_BIN_EXE_sandpool-agent")));
        agent.begin(members);
        agent
    }

    /// A started machine whose agent is an ordinary user.
    pub fn of_user(uid: u32) -> Self {
        // A copy: the folder of the build may be closed to others.
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let copy = std::env::temp_dir().join(format!("sandpool-agent-copy-{}-{number}", std::process::id()));
        std::fs::copy(env!("CARGO_BIN_EXE_sandpool-agent"), &copy).expect("a copy of the agent");
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).expect("a program");
        let mut agent = Self::run(Command::new(&copy).uid(uid).gid(uid));
        std::fs::remove_file(copy).expect("the copy");
        agent.begin(&json!({}));
        agent
    }

    fn run(command: &mut Command) -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sandpool-machine-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("a folder for all");
        command.arg("machine").stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
        let mut process = command.spawn().expect("the agent");
        let mut output = process.stdout.take().expect("its output");
        let (sender, frames) = sync_channel(64);
        std::thread::spawn(move || {
            while let Some(frame) = read_frame(&mut output) {
                if sender.send(frame).is_err() {
                    return;
                }
            }
        });
        let input = process.stdin.take();
        Self {
            process,
            folder,
            input,
            frames,
            sequence: 7_000,
            stream: 0,
            replies: HashMap::new(),
            streams: HashMap::new(),
            credit: HashMap::new(),
            cancelled: Vec::new(),
            generous: true,
        }
    }

    pub fn begin(&mut self, members: &Value) -> Value {
        let mut head = json!({"op": "machine", "id": "m0", "hostname": "box", "memory_bytes": null,
            "environ": {"PATH": "/usr/local/bin:/usr/bin:/bin"}, "generation": 0, "wall_clock_ms": 0});
        merge(&mut head, members);
        let reply = self.request(&head);
        assert_eq!(reply["ok"], true, "{reply}");
        reply
    }

    /// A path in the test's folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    /// A stream number that is not in use.
    pub fn new_stream(&mut self) -> u64 {
        self.stream += 1;
        self.credit.insert(self.stream, CREDIT_BYTES);
        self.stream
    }

    pub fn send(&mut self, kind: Kind, sequence: u32, head: &Value, body: &[u8]) {
        let head = head.to_string().into_bytes();
        let mut bytes = frame::encode(sequence, kind, &head, body.len()).to_vec();
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(body);
        self.input.as_mut().expect("open").write_all(&bytes).expect("the agent reads");
    }

    /// Sends a request; `answer` waits for its reply.
    pub fn ask(&mut self, head: &Value) -> u32 {
        self.sequence += 1;
        let sequence = self.sequence;
        self.send(Kind::Request, sequence, head, b"");
        sequence
    }

    pub fn answer(&mut self, sequence: u32) -> Frame {
        loop {
            if let Some(frame) = self.replies.remove(&sequence) {
                return frame;
            }
            self.take();
        }
    }

    pub fn request(&mut self, head: &Value) -> Value {
        let sequence = self.ask(head);
        self.answer(sequence).head
    }

    /// A request that has to work out.
    pub fn expect(&mut self, head: &Value) -> Value {
        let reply = self.request(head);
        assert_eq!(reply["ok"], true, "{head} gave {reply}");
        reply
    }

    /// A request that has to fail; its error.
    pub fn refuse(&mut self, head: &Value) -> Value {
        let reply = self.request(head);
        assert_eq!(reply["ok"], false, "{head} gave {reply}");
        reply["error"].clone()
    }

    /// Takes one frame.
    pub fn take(&mut self) {
        let frame = self.frames.recv_timeout(PATIENCE).expect("a frame within the test's patience");
        self.sort(frame);
    }

    fn sort(&mut self, frame: Frame) {
        match frame.kind {
            2 => drop(self.replies.insert(frame.sequence, frame)),
            3 => self.heed(&frame.head),
            4 => {
                let stream = frame.head["s"].as_u64().expect("a stream");
                let incoming = self.streams.entry(stream).or_default();
                assert!(incoming.end.is_none(), "data after the end of stream {stream}");
                assert!(frame.body.len() <= 64 << 10);
                incoming.bytes.extend_from_slice(&frame.body);
                if frame.head["end"] == true || !frame.head["error"].is_null() {
                    incoming.end = Some(frame.head);
                } else if self.generous {
                    self.pay(stream, frame.body.len());
                }
            }
            other => panic!("a frame of kind {other}"),
        }
    }

    fn heed(&mut self, event: &Value) {
        let stream = event["s"].as_u64().unwrap_or(0);
        match event["event"].as_str() {
            Some("credit") => {
                *self.credit.entry(stream).or_default() += event["bytes"].as_u64().expect("bytes") as usize
            }
            Some("cancel") => self.cancelled.push(stream),
            _ => panic!("an event {event}"),
        }
    }

    pub fn pay(&mut self, stream: u64, bytes: usize) {
        self.send(Kind::Event, 0, &json!({"event": "credit", "s": stream, "bytes": bytes}), b"");
    }

    /// Everything of a stream, and its last frame's head.
    pub fn drain(&mut self, stream: u64) -> (Vec<u8>, Value) {
        loop {
            if let Some(end) = self.streams.get(&stream).and_then(|incoming| incoming.end.clone()) {
                return (self.streams.remove(&stream).expect("known").bytes, end);
            }
            self.take();
        }
    }

    /// Waits until a stream has brought that many bytes.
    pub fn wait_bytes(&mut self, stream: u64, count: usize) -> Vec<u8> {
        while self.streams.get(&stream).is_none_or(|incoming| incoming.bytes.len() < count) {
            self.take();
        }
        self.streams[&stream].bytes.clone()
    }

    /// Sends bytes on a stream, as its credit allows; false when the agent has cancelled it.
    pub fn feed(&mut self, stream: u64, bytes: &[u8]) -> bool {
        for chunk in bytes.chunks(64 << 10) {
            while self.credit[&stream] < chunk.len() {
                if self.cancelled.contains(&stream) {
                    return false;
                }
                self.take();
            }
            *self.credit.get_mut(&stream).expect("known") -= chunk.len();
            self.send(Kind::Data, 0, &json!({"s": stream}), chunk);
        }
        true
    }

    pub fn end(&mut self, stream: u64) {
        self.send(Kind::Data, 0, &json!({"s": stream, "end": true}), b"");
    }

    /// Starts a program; `members` are more of its request.
    pub fn start(&mut self, id: &str, argv: &[&str], members: &Value) -> Value {
        let mut head = json!({"op": "exec.start", "id": id, "argv": argv});
        merge(&mut head, members);
        self.expect(&head)
    }

    /// Waits for its end.
    pub fn wait(&mut self, id: &str) -> Outcome {
        let sequence = self.ask(&json!({"op": "exec.wait", "id": id, "collect": true}));
        let frame = self.answer(sequence);
        assert_eq!(frame.head["ok"], true, "{}", frame.head);
        let length = frame.head["stdout"]["length"].as_u64().expect("a length") as usize;
        let (stdout, stderr) = frame.body.split_at(length);
        Outcome { stdout: stdout.to_vec(), stderr: stderr.to_vec(), head: frame.head }
    }

    /// Starts and waits.
    pub fn exec(&mut self, argv: &[&str], members: &Value) -> Outcome {
        self.sequence += 1;
        let id = format!("x{}", self.sequence);
        self.start(&id, argv, members);
        self.wait(&id)
    }

    /// A shell script's outcome.
    pub fn shell(&mut self, script: &str) -> Outcome {
        self.exec(&["/bin/sh", "-c", script], &json!({}))
    }

    /// State of an exec in the list.
    pub fn listed(&mut self, id: &str) -> Option<Value> {
        let reply = self.expect(&json!({"op": "exec.list"}));
        reply["execs"].as_array().expect("a list").iter().find(|exec| exec["id"] == id).cloned()
    }

    /// Asks again until something holds; only a hang ends it otherwise.
    pub fn until<T>(&mut self, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let began = std::time::Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "it never came to hold");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Resident bytes of the agent.
    pub fn resident_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("its status");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its size");
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
    }
}

impl Outcome {
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("UTF-8")
    }
}

/// Whether a process lives; zombies do not.
pub fn is_alive(pid: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

/// Numbers of the words of a text.
pub fn pids(text: &str) -> Vec<i64> {
    text.split_whitespace().map(|word| word.parse().expect("a pid")).collect()
}

/// Bytes that are cheap to make and never repeat in step with any buffer.
pub fn pattern(count: usize) -> Vec<u8> {
    (0..count as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

pub fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

fn merge(head: &mut Value, members: &Value) {
    let members = members.as_object().expect("an object").clone();
    head.as_object_mut().expect("an object").extend(members);
}

fn read_frame(output: &mut impl Read) -> Option<Frame> {
    let mut header = [0; HEADER_BYTES];
    output.read_exact(&mut header).ok()?;
    let decoded = frame::decode(&header).expect("a header");
    let mut head = vec![0; decoded.head_bytes];
    output.read_exact(&mut head).ok()?;
    assert_eq!(frame::checksum(&header, &head), decoded.checksum);
    let mut body = vec![0; decoded.body_bytes];
    output.read_exact(&mut body).ok()?;
    let head = serde_json::from_slice(&head).expect("JSON");
    Some(Frame { sequence: decoded.sequence, kind: decoded.kind, head, body })
}
