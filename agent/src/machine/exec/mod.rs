//! Programs: one keeper each, their outputs kept and streamed, their ends told once.

mod attach;
mod events;
mod input;
mod kept;
mod list;
mod outcome;
mod output;
mod signal;
mod start;
mod timers;
mod wait;

use super::keeper::Order;
use super::poller::Watched;
use super::run::Ticket;
use super::streams::Inbound;
use kept::Kept;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

pub use start::shell;

/// All execs that can be listed, by slot: the order in which they were started.
#[derive(Default)]
pub struct Execs {
    slots: BTreeMap<u32, Exec>,
    next_slot: u32,
}

impl Execs {
    /// One of them.
    pub fn of_slot(&mut self, slot: u32) -> Option<&mut Exec> {
        self.slots.get_mut(&slot)
    }

    /// All of them, oldest first.
    pub fn all(&self) -> impl Iterator<Item = &Exec> {
        self.slots.values()
    }

    /// The one with that id.
    pub fn of_id(&mut self, id: &str) -> Option<&mut Exec> {
        self.slots.values_mut().find(|exec| exec.id == id)
    }

    /// An order to every keeper.
    pub fn order_all(&mut self, order: &Order) {
        self.slots.values_mut().filter_map(|exec| exec.keeper.as_mut()).for_each(|keeper| keeper.order(order));
    }

    /// This machine is a copy: what runs was started in another one, and nobody here waits for it.
    pub fn all_copied(&mut self) {
        for exec in self.slots.values_mut() {
            exec.copied = true;
            exec.waits.clear();
            exec.orders.clear();
        }
    }

    fn slot_of(&self, id: &str) -> Option<u32> {
        self.slots.iter().find(|(_, exec)| exec.id == id).map(|(slot, _)| *slot)
    }
}

/// One program and what it left behind.
pub struct Exec {
    /// The server's id.
    pub id: String,
    described: Described,
    pid: Option<i32>,
    keeper: Option<Keeper>,
    /// The start's request, until the program runs.
    starting: Option<Ticket>,
    stdout: Output,
    /// None on a terminal.
    stderr: Option<Output>,
    input: Option<Input>,
    /// For its size.
    terminal: Option<OwnedFd>,
    leader: Option<LeaderExit>,
    /// The leader's end left something, which may live still.
    left: bool,
    /// The call has ended: its streams are closed, its waits answered.
    closed: bool,
    /// Nothing lives below the keeper any more.
    gone: Option<Instant>,
    deadline: Option<Instant>,
    /// Output that a daemon holds open is waited for until then.
    drain_until: Option<Instant>,
    /// The call ends then even if something refuses to die.
    give_up_at: Option<Instant>,
    timed_out: bool,
    oom_killed: bool,
    lost: bool,
    /// Started in the machine that this one is a copy of.
    copied: bool,
    waits: Vec<Wait>,
    /// Since when somebody who was told its end may come for its output.
    owed: Option<Instant>,
    orders: BTreeMap<u32, Ticket>,
}

/// What lists say of it.
struct Described {
    argv: Vec<String>,
    cwd: Option<String>,
    user: String,
    tty: bool,
    started_at_ms: u64,
    started: Instant,
    grace_ms: u64,
    timeout_ms: Option<u64>,
}

/// How the leader ended.
struct LeaderExit {
    code: Option<i32>,
    signal: Option<i32>,
    duration_ms: u64,
}

/// The keeper's process and this side of its channel.
struct Keeper {
    pid: i32,
    control: Watched,
    buffer: Vec<u8>,
    /// Orders that the socket did not take yet.
    unsent: Vec<u8>,
}

/// One output of a program.
struct Output {
    source: Option<Watched>,
    kept: Kept,
    /// Streams that get everything; the program waits for the slowest.
    readers: Vec<u64>,
    /// Bytes that stood in the pipe when the leader ended: they are read whatever the readers' credit.
    owed_bytes: usize,
}

/// Standard input.
struct Input {
    sink: Watched,
    tty: bool,
    feed: Option<Feed>,
}

/// A stream that feeds it.
struct Feed {
    queue: Arc<Inbound>,
    ticket: Ticket,
    written_bytes: u64,
}

/// A request that waits for the end.
struct Wait {
    ticket: Ticket,
    collect: bool,
}

impl Exec {
    fn outputs(&mut self) -> impl Iterator<Item = &mut Output> {
        std::iter::once(&mut self.stdout).chain(self.stderr.as_mut())
    }

    /// The pid of its keeper, while something of it may live.
    pub fn keeper_pid(&self) -> Option<i32> {
        self.keeper.as_ref().map(|keeper| keeper.pid)
    }

    /// Its call has ended and nothing of it lives.
    pub fn is_finished(&self) -> bool {
        self.closed && self.keeper.is_none()
    }

    /// The kernel or the memory watch has killed one of its programs for want of memory.
    pub fn mark_oom_killed(&mut self) {
        self.oom_killed = true;
    }

    fn state(&self) -> &'static str {
        match (self.lost, self.closed, self.left) {
            (true, ..) => "lost",
            (_, false, _) if self.copied => "detached",
            (_, false, _) => "running",
            (_, true, true) => "detached",
            (_, true, false) => "exited",
        }
    }
}
