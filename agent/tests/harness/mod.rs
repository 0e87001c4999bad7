//! A worker for tests: starts the real agent with a socket at descriptor 3 and speaks frames with it.
#![allow(dead_code)]

pub mod branch;
pub mod stream;

use sandpool_agent::channel::frame::{self, HEADER_BYTES, Kind};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stream::Results;

/// Longer than any deadline a test sets; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// One frame from the agent.
pub struct Frame {
    pub sequence: u32,
    pub kind: u16,
    pub head: Value,
    pub body: Vec<u8>,
}

/// The agent, and this side of its channel.
pub struct Agent {
    pub process: Child,
    pub stream: UnixStream,
    pub folder: PathBuf,
    pub events: Vec<Value>,
    pub results: VecDeque<Results>,
    sequence: u32,
    seq: u64,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Agent {
    /// An agent that waits for its start.
    pub fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("sandpool-agent-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for workspaces");
        Self::run(Command::new(env!("CARGO_BIN_EXE_sandpool-agent")), folder)
    }

    /// The agent that a command starts, which gets its channel as descriptor 3.
    pub fn run(mut command: Command, folder: PathBuf) -> Self {
        let (stream, theirs) = UnixStream::pair().expect("a socket pair");
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        let descriptor = theirs.as_raw_fd();
        // SAFETY: dup2 may be called between fork and exec.
        unsafe {
            command.pre_exec(move || {
                if libc::dup2(descriptor, 3) == 3 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        let process = command.spawn().expect("the agent");
        Self { process, stream, folder, events: Vec::new(), results: VecDeque::new(), sequence: 0, seq: 0 }
    }

    /// A shard of `count` rows of a program, started, with the layout that it proposes.
    pub fn started(argv: &[&str], count: u32, changes: Value) -> (Self, Value) {
        Self::new().start(argv, count, changes)
    }

    /// Starts a shard, with the layout that it proposes.
    pub fn start(mut self, argv: &[&str], count: u32, changes: Value) -> (Self, Value) {
        let agent = &mut self;
        let head = agent.start_head(argv, count, changes);
        let reply = agent.request(&head, b"{}");
        assert_eq!(reply.head["ok"], true, "start: {}", reply.head);
        let layout = json!({"op": "layout", "layout": reply.head["layout"]});
        let fixed = agent.request(&layout, b"");
        assert_eq!(fixed.head["ok"], true, "layout: {}", fixed.head);
        (self, reply.head)
    }

    /// The head of a start, with members replaced.
    pub fn start_head(&self, argv: &[&str], count: u32, changes: Value) -> Value {
        let mut head = json!({
            "op": "start", "n": count, "first": 0, "count": count, "argv": argv, "cwd": "/",
            "environ": {"PATH": "/usr/local/bin:/usr/bin:/bin"},
            "isolated": false, "way": "spawn", "spawn_parallel": 8, "base_uid": 10000, "template_uid": 1000,
            "workspace_bytes": 1 << 20, "workspace_inodes": 1000, "memory_bytes": 1u64 << 40, "memory_dir": null,
            "processes": 256, "workspaces": self.folder, "seed": 123, "seeds": "derived", "autoreset": null,
            "episode_offset": 0,
            "deadlines_ms": {"start": 20000, "reset": 20000, "step": 20000, "call": 20000, "close": 2000},
            "in_flight": null, "first_reset": true, "branching": true,
            "max_message_bytes": 16 << 20, "max_row_bytes": 4 << 20,
        });
        for (key, value) in changes.as_object().expect("changes") {
            match value.as_object() {
                Some(inner) if key == "deadlines_ms" => {
                    for (name, value) in inner {
                        head[key][name] = value.clone();
                    }
                }
                _ => head[key] = value.clone(),
            }
        }
        head
    }

    /// Sends a request and returns its reply; events on the way are kept.
    pub fn request(&mut self, head: &Value, body: &[u8]) -> Frame {
        let sequence = self.send(head, body);
        self.reply(sequence)
    }

    /// Sends a request.
    pub fn send(&mut self, head: &Value, body: &[u8]) -> u32 {
        self.sequence += 1;
        let head = head.to_string();
        let header = frame::encode(self.sequence, Kind::Request, head.as_bytes(), body.len());
        let message = [&header, head.as_bytes(), body].concat();
        self.stream.write_all(&message).expect("a request written");
        self.sequence
    }

    /// The reply of that number.
    pub fn reply(&mut self, sequence: u32) -> Frame {
        loop {
            let frame = self.frame().expect("a frame");
            let Some(frame) = self.set_event_aside(frame) else {
                continue;
            };
            assert_eq!(frame.sequence, sequence, "the reply's sequence: {}", frame.head);
            return frame;
        }
    }

    /// Keeps an event for later; gives anything else back.
    fn set_event_aside(&mut self, frame: Frame) -> Option<Frame> {
        if frame.kind != Kind::Event as u16 {
            return Some(frame);
        }
        match frame.head["event"] == "results" {
            true => self.results.push_back(Results::of(frame)),
            false => self.events.push(frame.head),
        }
        None
    }

    /// The next frame; None at the end of the channel.
    pub fn frame(&mut self) -> Option<Frame> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).ok()?;
        let decoded = frame::decode(&header).expect("a header");
        let mut head = vec![0; decoded.head_bytes];
        self.stream.read_exact(&mut head).ok()?;
        assert_eq!(frame::checksum(&header, &head), decoded.checksum, "the checksum");
        let mut body = vec![0; decoded.body_bytes];
        self.stream.read_exact(&mut body).ok()?;
        let head = serde_json::from_slice(&head).expect("a JSON head");
        Some(Frame { sequence: decoded.sequence, kind: decoded.kind, head, body })
    }

    /// The number of the next batch.
    pub fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Steps with JSON; `changes` go into the head.
    pub fn step(&mut self, actions: Value, changes: Value) -> Batch {
        let seq = self.next_seq();
        let head = merged(
            json!({"op": "step", "seq": seq, "encoding": "json", "rows": null, "offset": 0,
            "actions": {"kind": "json"}}),
            &changes,
        );
        Batch::of(self.request(&head, json!({"actions": actions}).to_string().as_bytes()))
    }

    /// Resets with JSON.
    pub fn reset(&mut self, changes: Value) -> Batch {
        let seq = self.next_seq();
        let head = merged(
            json!({"op": "reset", "seq": seq, "encoding": "json", "rows": null, "seeds": null, "hard": false,
                "offset": 0}),
            &changes,
        );
        Batch::of(self.request(&head, b"{}"))
    }

    /// Calls with JSON.
    pub fn call(&mut self, name: &str, body: Value, changes: Value) -> Batch {
        let seq = self.next_seq();
        let head = merged(
            json!({"op": "call", "seq": seq, "encoding": "json", "rows": null, "offset": 0,
            "call": "call", "name": name}),
            &changes,
        );
        Batch::of(self.request(&head, body.to_string().as_bytes()))
    }

    /// What the environments are doing.
    pub fn status(&mut self) -> Value {
        self.request(&json!({"op": "status", "memory": false}), b"").head
    }

    /// A row's log.
    pub fn logs(&mut self, row: u32) -> String {
        let reply = self.request(&json!({"op": "logs", "row": row}), b"");
        String::from_utf8_lossy(&reply.body).into_owned()
    }

    /// Waits until the status is as wanted.
    pub fn await_status(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let began = std::time::Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "the status never came to be: {status}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The columns of a JSON batch.
pub struct Batch {
    pub head: Value,
    pub body: Vec<u8>,
}

impl Batch {
    pub fn of(frame: Frame) -> Self {
        assert_eq!(frame.head["ok"], true, "a batch: {}", frame.head);
        Self { head: frame.head, body: frame.body }
    }

    /// The text of a column.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name, None).to_vec()).expect("UTF-8")
    }

    /// The bytes of a column.
    pub fn bytes(&self, name: &str, field: Option<u64>) -> &[u8] {
        let mut start = 0;
        for column in self.head["columns"].as_array().expect("columns") {
            let length = column["length"].as_u64().expect("a length") as usize;
            if column["name"] == name && (field.is_none() || column["field"].as_u64() == field) {
                return &self.body[start..start + length];
            }
            start += length;
        }
        panic!("no column {name} in {}", self.head);
    }

    /// The items of a JSON column.
    pub fn column(&self, name: &str) -> Value {
        let text = self.text(name);
        serde_json::from_str(&format!("[{text}]")).unwrap_or_else(|error| panic!("column {name}: {error}: {text}"))
    }

    /// The texts of the items of a JSON column.
    pub fn items(&self, name: &str) -> Vec<String> {
        let text = format!("[{}]", self.text(name));
        let items: Vec<Box<serde_json::value::RawValue>> = serde_json::from_str(&text).expect("a JSON column");
        items.iter().map(|item| item.get().to_owned()).collect()
    }

    /// The error of a row.
    pub fn error(&self, slot: usize) -> Value {
        let info: Value = serde_json::from_str(&self.items("infos")[slot]).expect("an info");
        info["sandpool_error"].clone()
    }
}

/// The path of a test program.
pub fn program(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).to_string_lossy().into_owned()
}

/// Argv of a Python program with arguments.
pub fn python<'a>(path: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [&["/usr/bin/python3", "-S", "-B", "-u", path], arguments].concat()
}

/// A head with members replaced.
pub fn merged(mut head: Value, changes: &Value) -> Value {
    for (key, value) in changes.as_object().expect("changes") {
        head[key] = value.clone();
    }
    head
}

/// Argv of the puppet with settings.
pub fn puppet(settings: Value) -> Vec<String> {
    let path = program("puppet.py");
    ["/usr/bin/python3", "-S", "-B", "-u", path.as_str(), &settings.to_string()].map(str::to_owned).to_vec()
}

/// A started shard of puppets.
pub fn puppets(settings: Value, count: u32, changes: Value) -> (Agent, Value) {
    let argv = puppet(settings);
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    Agent::started(&argv, count, changes)
}

/// A started shard of crews, `rows_per_process` rows in each process.
pub fn crews(settings: Value, count: u32, rows_per_process: u32, changes: Value) -> (Agent, Value) {
    let (agent, started) = try_crews(settings, count, json!(rows_per_process), changes);
    assert_eq!(started["ok"], true, "start: {started}");
    let mut agent = agent;
    let fixed = agent.request(&json!({"op": "layout", "layout": started["layout"]}), b"");
    assert_eq!(fixed.head["ok"], true, "layout: {}", fixed.head);
    (agent, started)
}

/// A shard of crews and the reply to its start, whatever it is.
pub fn try_crews(settings: Value, count: u32, rows_per_process: Value, changes: Value) -> (Agent, Value) {
    let mut agent = Agent::new();
    let path = program("crew.py");
    let text = settings.to_string();
    let head = agent.start_head(
        &python(&path, &[&text]),
        count,
        merged(changes, &json!({"rows_per_process": rows_per_process})),
    );
    let started = agent.request(&head, b"{}").head;
    (agent, started)
}

/// A head of a batch with a body of its own.
pub fn batch_with(agent: &mut Agent, op: &str, changes: Value, body: &[u8]) -> Batch {
    Batch::of(request_with(agent, op, changes, body))
}

/// The reply to a batch with a body of its own, whatever it is.
pub fn request_with(agent: &mut Agent, op: &str, changes: Value, body: &[u8]) -> Frame {
    let seq = agent.next_seq();
    let base = match op {
        "step" => json!({"actions": {"kind": "json"}}),
        "call" => json!({"call": "call", "name": "render"}),
        _ => json!({"seeds": null, "hard": false}),
    };
    let common = json!({"op": op, "seq": seq, "encoding": "json", "rows": null, "offset": 0});
    let head = merged(merged(common, &base), &changes);
    agent.request(&head, body)
}
