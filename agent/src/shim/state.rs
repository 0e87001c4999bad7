//! All that a shim knows.

use super::connection::{self, Connection};
use super::frames::Outgoing;
use super::namespaces::Namespaces;
use super::pipes::{Pipes, Queue};
use super::ring::Ring;
use super::runtime::Call;
use super::settings::Settings;
use crate::channel::frame::Kind;
use serde_json::{Value, json};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Who waits for an answer: the connection's number and the request's.
pub type Asker = (u64, u32);

/// A call of the runtime that somebody waits for.
pub struct Waiting {
    /// The call.
    pub call: Call,
    /// Killed after it.
    pub deadline: Instant,
    /// Null: the call that starts the container.
    pub asker: Option<Asker>,
}

/// The process whose end is the machine's.
pub struct Sandbox {
    /// Its number.
    pub pid: i32,
    /// Becomes readable when it has ended.
    pub process: OwnedFd,
}

/// How the sandbox ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ended {
    /// Exit code; null when a signal ended it, or nobody could learn.
    pub code: Option<i32>,
    /// The signal's number.
    pub signal: Option<i32>,
}

/// One machine's shim.
pub struct Shim {
    /// The machine's folder.
    pub folder: PathBuf,
    /// `shim.json`.
    pub settings: Settings,
    /// The FIFOs.
    pub pipes: Pipes,
    /// SIGCHLD.
    pub children: OwnedFd,
    /// `shim.sock`.
    pub listener: UnixListener,
    /// `stderr`.
    pub ring: Ring,
    /// Null before they are made and where their holder was killed.
    pub spaces: Option<Namespaces>,
    /// The runtime's `create`, while it runs.
    pub creating: Option<Child>,
    /// Null until it was created.
    pub sandbox: Option<Sandbox>,
    /// The runtime puts a state into the container.
    pub restoring: bool,
    /// Whether the container's first process was started.
    pub started_at: Option<u64>,
    /// Kills for lack of memory before the start.
    pub kills_before: u64,
    /// Calls that run.
    pub calls: Vec<Waiting>,
    /// The server.
    pub connection: Option<Connection>,
    /// How many there were.
    pub connections: u64,
    /// For the agent.
    pub to_agent: Queue,
    /// From the agent.
    pub outgoing: Outgoing,
    /// Own frames that wait for the end of one of the agent's.
    pub own_frames: Vec<u8>,
    /// Who waits for the end.
    pub askers: Vec<Asker>,
    /// When a stop becomes a kill.
    pub stop_by: Option<Instant>,
    /// Set once the sandbox has ended, or never will have begun.
    pub ended: Option<Ended>,
    /// Why it never ran.
    pub failure: Option<String>,
}

impl Shim {
    /// A shim that has started nothing yet.
    pub fn new(
        folder: PathBuf,
        settings: Settings,
        pipes: Pipes,
        children: OwnedFd,
        listener: UnixListener,
    ) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::open(&folder)?,
            folder,
            settings,
            pipes,
            children,
            listener,
            spaces: None,
            creating: None,
            sandbox: None,
            restoring: false,
            started_at: None,
            kills_before: 0,
            calls: Vec::new(),
            connection: None,
            connections: 0,
            to_agent: Queue::default(),
            outgoing: Outgoing::default(),
            own_frames: Vec::new(),
            askers: Vec::new(),
            stop_by: None,
            ended: None,
            failure: None,
        })
    }

    /// What is told on accept and to `shim.status`.
    pub fn status(&self) -> Value {
        let state = match (self.ended, self.started_at) {
            (Some(_), _) => "exited",
            (None, Some(_)) => "running",
            (None, None) if self.settings.network && self.creating.is_none() && self.sandbox.is_none() => "waiting",
            (None, None) if self.restoring => "restoring",
            (None, None) if self.settings.restore && self.sandbox.is_some() => "created",
            (None, None) => "starting",
        };
        json!({
            "state": state,
            "pid": self.sandbox.as_ref().map(|sandbox| sandbox.pid),
            "started_at": self.started_at,
            "exit": self.ended.map(|ended| self.exit(ended)),
            "version": env!("CARGO_PKG_VERSION"),
        })
    }

    /// What `exit.json` says.
    pub fn exit(&self, ended: Ended) -> Value {
        let mut exit = json!({
            "code": ended.code,
            "signal": ended.signal.map(signal_name),
            "oom_killed": self.was_out_of_memory(ended),
            "started": self.started_at.is_some(),
            "at": now_ms(),
        });
        if self.started_at.is_none() {
            exit["stderr"] = json!(self.failure.clone().unwrap_or_else(|| self.ring.tail(4096)));
        }
        exit
    }

    /// Sends a frame of the shim's own, between two of the agent's.
    pub fn tell(&mut self, sequence: u32, kind: Kind, head: &Value) {
        if let Some(connection) = &mut self.connection {
            let frame = connection::encode(sequence, kind, head);
            if self.outgoing.between_frames() {
                connection.queue.end().extend(frame);
            } else {
                self.own_frames.extend(frame);
            }
        }
    }

    /// Answers a request, if who asked is still connected.
    pub fn answer(&mut self, (connection, sequence): Asker, head: &Value) {
        if self.connection.as_ref().is_some_and(|present| present.number == connection) {
            self.tell(sequence, Kind::Reply, head);
        }
    }

    /// How often the kernel killed in the machine's group for lack of memory.
    pub fn memory_kills(&self) -> u64 {
        let Some(group) = &self.settings.memory_group else { return 0 };
        let text = ["memory.oom_control", "memory.events"]
            .iter()
            .find_map(|name| std::fs::read_to_string(group.join(name)).ok())
            .unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
    }

    /// A kill for lack of memory may have hit one program only, with the machine ending later for another reason.
    fn was_out_of_memory(&self, ended: Ended) -> bool {
        let killed = ended.signal == Some(libc::SIGKILL) || ended.code.is_none_or(|code| code != 0);
        killed && self.memory_kills() > self.kills_before
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn signal_name(signal: i32) -> String {
    const NAMES: [&str; 32] = [
        "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    NAMES.get(signal as usize).map_or_else(|| signal.to_string(), |name| (*name).to_owned())
}
