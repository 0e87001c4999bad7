//! A running container with the probe as process 1, driven line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::bundle::{Bundle, Container};
use super::probe::probe;

const PATIENCE: Duration = Duration::from_secs(20);

pub struct Shard {
    runtime: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
    errors: ChildStderr,
    bundle: Bundle,
}

impl Shard {
    /// An isolated shard in the default container, with these settings changed.
    pub fn isolated(settings: Value) -> Self {
        Self::start(&Container::default(), &with(json!({"isolated": true}), settings))
    }

    /// The control: rows of one uid, the container's root, with nothing between them.
    pub fn unisolated() -> Self {
        let container = Container { no_new_privileges: false, ..Container::default() };
        Self::start(&container, &json!({"isolated": false, "workspaces": "/run/rows"}))
    }

    pub fn start(container: &Container, settings: &Value) -> Self {
        let mut shard = Self::boot(container);
        let opened = shard.try_ask("new", settings.clone());
        assert_eq!(opened, json!({}), "the isolation did not start");
        shard
    }

    /// Without `Isolation::new`.
    pub fn boot(container: &Container) -> Self {
        let bundle = Bundle::make(container, &probe(), &["agent"]);
        let mut runtime = Command::new("runc")
            .arg("--root")
            .arg(bundle.folder.join("state"))
            .arg("run")
            .arg("--bundle")
            .arg(&bundle.folder)
            .arg(&bundle.name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("these tests need runc on PATH and root: install runc and run them as root");
        Self {
            requests: runtime.stdin.take().expect("piped"),
            replies: BufReader::new(runtime.stdout.take().expect("piped")),
            errors: runtime.stderr.take().expect("piped"),
            runtime,
            bundle,
        }
    }

    /// Asks and expects success.
    pub fn ask(&mut self, op: &str, members: Value) -> Value {
        let reply = self.try_ask(op, members);
        assert!(reply.get("error").is_none(), "{op}: {reply}");
        reply
    }

    pub fn try_ask(&mut self, op: &str, members: Value) -> Value {
        let request = with(json!({"op": op}), members);
        let written = writeln!(self.requests, "{request}");
        let mut line = String::new();
        let read = self.replies.read_line(&mut line);
        if written.is_err() || !matches!(read, Ok(1..)) {
            let _ = self.runtime.kill();
            let mut errors = String::new();
            let _ = self.errors.read_to_string(&mut errors);
            panic!("the container ended at {request}: {errors}");
        }
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?} is not JSON"))
    }

    /// Starts the probe in a role as row `row`; the reply has `pid` and `workspace`.
    pub fn spawn(&mut self, row: u32, role: &[&str]) -> Value {
        let argv = [&["/sandpool/agent"], role].concat();
        self.ask("spawn", json!({"row": row, "argv": argv}))
    }

    /// Starts a role and waits for its end: `code`, `signal`, `output`.
    pub fn run(&mut self, row: u32, role: &[&str]) -> Value {
        self.spawn(row, role);
        self.wait(row)
    }

    /// Runs a role that prints JSON.
    pub fn tell(&mut self, row: u32, role: &[&str]) -> Value {
        let ended = self.run(row, role);
        parse_output(&ended)
    }

    pub fn wait(&mut self, row: u32) -> Value {
        self.ask("wait", json!({"row": row}))
    }

    /// Waits until the row has printed a whole line, and returns its output.
    pub fn printed(&mut self, row: u32) -> String {
        self.until("output", json!({"row": row}), |reply| {
            let output = reply["output"].as_str().expect("text");
            output.ends_with('\n').then(|| output.trim_end().to_owned())
        })
    }

    /// Asks until the answer satisfies.
    pub fn until<T>(&mut self, op: &str, members: Value, done: impl Fn(&Value) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let reply = self.ask(op, members.clone());
            if let Some(result) = done(&reply) {
                return result;
            }
            assert!(Instant::now() < deadline, "{op} still answers {reply}");
            sleep(Duration::from_millis(2));
        }
    }

    pub fn processes(&mut self, row: u32) -> u64 {
        self.ask("processes", json!({"row": row}))["processes"].as_u64().expect("a number")
    }

    pub fn kill(&mut self, row: u32) -> Value {
        self.ask("kill", json!({"row": row}))
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        let _ = Command::new("runc")
            .arg("--root")
            .arg(self.bundle.folder.join("state"))
            .args(["delete", "--force"])
            .arg(&self.bundle.name)
            .stderr(Stdio::null())
            .status();
        let _ = self.runtime.wait();
    }
}

pub fn parse_output(ended: &Value) -> Value {
    let output = ended["output"].as_str().expect("text");
    serde_json::from_str(output).unwrap_or_else(|_| panic!("not JSON: {ended}"))
}

/// The members of both objects.
pub fn with(mut object: Value, members: Value) -> Value {
    if let (Value::Object(object), Value::Object(members)) = (&mut object, members) {
        object.extend::<Map<String, Value>>(members);
    }
    object
}
