//! The agent's part: one JSON request a line on standard input, one reply a line on standard output.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Error, Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use sandpool_agent::isolation::{
    ChildFds, Exit, Identity, Isolation, MemorySampler, Program, Settings, announce_sender, cpu_seconds, reap,
    receive_with_sender, send_descriptors,
};
use serde_json::{Value, json};

/// No answer takes longer unless something is broken.
const PATIENCE: Duration = Duration::from_secs(20);

struct Agent {
    isolation: Isolation,
    template: Option<(i32, UnixStream)>,
    rows: HashMap<u32, Row>,
    exits: HashMap<i32, Exit>,
}

struct Row {
    pid: i32,
    /// A live fork's channel.
    channel: UnixStream,
}

pub fn serve() {
    let mut agent: Option<Agent> = None;
    for line in io::stdin().lines() {
        let request: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let answer = match (&mut agent, request["op"].as_str().expect("op")) {
            (_, "new") => open(&request).map(|opened| {
                agent = Some(opened);
                json!({})
            }),
            (Some(agent), op) => agent.answer(op, &request),
            (None, op) => panic!("{op} before new"),
        };
        let reply = answer.unwrap_or_else(|error| json!({"error": error.to_string()}));
        println!("{reply}");
        io::stdout().flush().expect("a reader");
    }
}

fn open(request: &Value) -> io::Result<Agent> {
    let number = |name: &str, default| request[name].as_u64().unwrap_or(default);
    let path = |name: &str| request[name].as_str().map(Into::into);
    let isolation = Isolation::new(Settings {
        isolated: request["isolated"].as_bool().expect("isolated"),
        base_uid: number("base_uid", 10_000) as u32,
        n: number("n", 1000) as u32,
        states: number("states", 1024) as u32,
        states_memory: path("states_memory"),
        template_uid: 1000,
        workspace_bytes: number("workspace_bytes", 1 << 20),
        workspace_inodes: number("workspace_inodes", 100),
        memory_bytes: number("memory_bytes", 1 << 30),
        shard_memory_bytes: request["shard_memory_bytes"].as_u64(),
        memory_dir: path("memory_dir"),
        own_groups: false,
        processes: number("processes", 64),
        workspaces: path("workspaces"),
        branching: request["branching"].as_bool().unwrap_or(true),
    })?;
    Ok(Agent { isolation, template: None, rows: HashMap::new(), exits: HashMap::new() })
}

impl Agent {
    fn answer(&mut self, op: &str, request: &Value) -> io::Result<Value> {
        let row = request["row"].as_u64().unwrap_or(0) as u32;
        let rows = request["rows"].as_u64().unwrap_or(1) as u32;
        let id = self.isolation.identity(row, row, rows);
        match op {
            "spawn" => self.spawn(&id, request),
            "spawn_plain" => self.spawn_plain(row, request),
            "template" => self.start_template(request),
            "say" => self.say(request),
            "fork" => self.fork(&id, request),
            "wait" => self.wait(row),
            "output" => Ok(json!({"output": output(row)})),
            "kill" => self
                .isolation
                .kill_everything(&id)
                .map(|report| json!({"remaining": report.remaining, "complete": report.complete()})),
            "signal" => self.isolation.signal_everything(&id).map(|()| json!({})),
            "processes" => Ok(json!({"processes": processes_of(id.uid)})),
            "oom_kills" => Ok(json!({"oom_kills": self.isolation.oom_kills(&id)})),
            "cpu_seconds" => Ok(json!({"cpu_seconds": cpu_seconds(self.rows[&row].pid)})),
            "sample" => self.sample(),
            "leak" => Ok(json!({"descriptor": leak()})),
            "create_workspace" => self.isolation.create_workspace(&id).map(|()| json!({})),
            "remove_workspace" => self.isolation.remove_workspace(&id).map(|()| json!({})),
            "exists" => Ok(json!({"exists": fs::exists(&id.workspace)?})),
            "read" => Ok(json!({"text": fs::read_to_string(request["path"].as_str().unwrap_or(""))?})),
            other => panic!("{other} is no op"),
        }
    }

    fn spawn(&mut self, id: &Identity, request: &Value) -> io::Result<Value> {
        self.isolation.create_workspace(id)?;
        let (channel, theirs) = UnixStream::pair()?;
        let program = program(request);
        let files = Files::of(id.row)?;
        let pid = self.isolation.spawn_environment(&program, id, &files.fds(&theirs))?;
        self.isolation.detach_workspace(id)?;
        self.rows.insert(id.row, Row { pid, channel });
        Ok(json!({"pid": pid, "workspace": id.workspace}))
    }

    /// What any program gets that starts a child without care.
    fn spawn_plain(&mut self, row: u32, request: &Value) -> io::Result<Value> {
        let program = program(request);
        let files = Files::of(row)?;
        let pid = std::process::Command::new(&program.argv[0])
            .args(&program.argv[1..])
            .stdout(files.output.try_clone()?)
            .spawn()?
            .id()
            .cast_signed();
        let (channel, _) = UnixStream::pair()?;
        self.rows.insert(row, Row { pid, channel });
        Ok(json!({"pid": pid}))
    }

    /// The probe's own template, or the program in `argv`.
    fn start_template(&mut self, request: &Value) -> io::Result<Value> {
        let (channel, theirs) = UnixStream::pair()?;
        let own = json!({"argv": ["/sandpool/agent", "template"]});
        let program = program(if request["argv"].is_array() { request } else { &own });
        let files = Files::of(u32::MAX)?;
        let pid = self.isolation.spawn_template(&program, &files.fds(&theirs))?;
        channel.set_read_timeout(Some(PATIENCE))?;
        self.template = Some((pid, channel));
        Ok(json!({"pid": pid}))
    }

    /// Sends a message to the template, or with `to` to that row, and returns the line that answers.
    fn say(&mut self, request: &Value) -> io::Result<Value> {
        let mut channel = match request["to"].as_u64() {
            Some(row) => &self.rows[&(row as u32)].channel,
            None => &self.template.as_ref().expect("a template").1,
        };
        writeln!(channel, "{}", request["message"])?;
        let mut line = Vec::new();
        let mut byte = [0];
        while channel.read(&mut byte)? == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        serde_json::from_slice(&line).map_err(|error| {
            Error::other(format!("{error}: {:?}, stderr {:?}", String::from_utf8_lossy(&line), output(u32::MAX)))
        })
    }

    /// From the template, or with `from` from that row, which then gets its folders as descriptors.
    fn fork(&mut self, id: &Identity, request: &Value) -> io::Result<Value> {
        self.isolation.create_workspace(id)?;
        let (channel, theirs) = UnixStream::pair()?;
        announce_sender(channel.as_raw_fd())?;
        let files = Files::of(id.row)?;
        let mut message = self.isolation.fork_request(id);
        let more =
            [("id", json!(1)), ("op", json!("fork")), ("index", json!(id.row)), ("then", request["then"].clone())];
        message.extend(more.map(|(name, value)| (name.to_owned(), value)));
        let mut attached = vec![theirs.as_raw_fd(), files.output.as_raw_fd()];
        let mut folders: Vec<OwnedFd> = Vec::new();
        let source = match request["from"].as_u64() {
            Some(row) => {
                folders.extend(self.isolation.detached_workspace(id)?);
                let source = self.isolation.identity(row as u32, row as u32, 1);
                self.isolation.allow_memory_entry(id, Some(&source))?;
                &self.rows[&(row as u32)].channel
            }
            None => &self.template.as_ref().expect("a template").1,
        };
        attached.extend(folders.iter().map(AsRawFd::as_raw_fd));
        let line = Value::from(message).to_string() + "\n";
        let sent = send_descriptors(source.as_raw_fd(), line.as_bytes(), &attached)?;
        assert_eq!(sent, line.len());
        drop((theirs, folders));
        let mut buffer = [0; 4096];
        channel.set_read_timeout(Some(PATIENCE))?;
        let (read, sender) = receive_with_sender(channel.as_raw_fd(), &mut buffer)?;
        let hello: Value = serde_json::from_slice(&buffer[..read])?;
        let Some(pid) = hello["pid"].as_i64() else {
            return Err(Error::other(hello.to_string()));
        };
        let sender = sender.ok_or(Error::other("no sender"))?;
        self.isolation.allow_memory_entry(id, None)?;
        self.isolation.adopt(id, pid as i32);
        self.isolation.detach_workspace(id)?;
        self.rows.insert(id.row, Row { pid: pid as i32, channel });
        Ok(json!({"pid": pid, "sender": {"pid": sender.pid, "uid": sender.uid}}))
    }

    fn wait(&mut self, row: u32) -> io::Result<Value> {
        let pid = self.rows[&row].pid;
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.exits.extend(reap());
            if let Some(exit) = self.exits.remove(&pid) {
                return Ok(json!({"code": exit.code, "signal": exit.signal, "output": output(row)}));
            }
            if Instant::now() > deadline {
                return Err(Error::other(format!("process {pid} of row {row} has not ended")));
            }
            sleep(Duration::from_millis(1));
        }
    }

    fn sample(&mut self) -> io::Result<Value> {
        let rows: Vec<_> =
            self.rows.iter().map(|(&row, known)| (row, known.pid, self.isolation.identity(row, row, 1))).collect();
        let template = self.template.as_ref().map(|(pid, _)| *pid);
        let mut sampler = MemorySampler::start(&self.isolation, &rows, template)?;
        let sample = loop {
            if let Some(sample) = sampler.read() {
                break sample;
            }
            let mut ready = libc::pollfd { fd: sampler.fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry that outlives the call.
            unsafe { libc::poll(&raw mut ready, 1, -1) };
        };
        let by_row: HashMap<String, u64> = sample.rows.iter().map(|(row, bytes)| (row.to_string(), *bytes)).collect();
        Ok(json!({"rows": by_row, "template": sample.template, "agent": sample.agent}))
    }
}

fn program(request: &Value) -> Program {
    let words = request["argv"].as_array().expect("argv");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let environ = request["environ"].as_object();
    Program {
        argv: words.iter().map(text).collect(),
        cwd: request["cwd"].as_str().unwrap_or("/").to_owned(),
        environ: environ.into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect(),
    }
}

struct Files {
    nothing: File,
    output: File,
}

impl Files {
    fn of(row: u32) -> io::Result<Self> {
        Ok(Self { nothing: File::open("/dev/null")?, output: File::create(output_path(row))? })
    }

    fn fds(&self, channel: &UnixStream) -> ChildFds {
        ChildFds {
            stdin: self.nothing.as_raw_fd(),
            stdout: self.output.as_raw_fd(),
            stderr: self.output.as_raw_fd(),
            channel: channel.as_raw_fd(),
        }
    }
}

fn output_path(row: u32) -> String {
    format!("/run/output-{row}")
}

fn output(row: u32) -> String {
    fs::read_to_string(output_path(row)).unwrap_or_default()
}

/// A descriptor on a secret that exec does not close.
fn leak() -> RawFd {
    fs::write("/run/secret", "secret").expect("/run");
    let fd = File::open("/run/secret").expect("the secret").into_raw_fd();
    // SAFETY: takes numbers only.
    unsafe { libc::fcntl(fd, libc::F_DUPFD, 50) }
}

/// Processes of that real uid that have not ended.
fn processes_of(uid: u32) -> usize {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter(|entry| {
            let mut status = String::new();
            let read = File::open(entry.path().join("status")).and_then(|mut file| file.read_to_string(&mut status));
            read.is_ok() && status.contains(&format!("\nUid:\t{uid}\t")) && !status.contains("\nState:\tZ")
        })
        .count()
}
