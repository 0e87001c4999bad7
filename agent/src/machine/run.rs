//! The event loop: one thread that never blocks; work on files is done by others.

use super::connection::Connection;
use super::exec::Execs;
use super::mailbox::{Answer, Mailbox, Post};
use super::memory::MemoryWatch;
use super::poller::{Poller, Source, Watched};
use super::ports::Ports;
use super::start::Settings;
use super::states::Quiet;
use super::stop::Stopping;
use super::streams::{End, Streams};
use super::work::Workers;
use serde_json::Value;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whose request it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Which connection.
    pub epoch: u32,
    /// The request's number there.
    pub sequence: u32,
}

/// What handling a request comes to.
pub enum Answered {
    /// This is the answer.
    Now(Value),
    /// The answer comes when it is known.
    Later,
}

impl Answered {
    /// An answer without a body.
    pub fn now(head: Value) -> Self {
        Self::Now(head)
    }
}

/// Everything the agent of a machine knows.
pub struct Machine {
    pub(super) poller: Poller,
    pub(super) connection: Connection,
    pub(super) streams: Streams,
    pub(super) execs: Execs,
    pub(super) ports: Ports,
    pub(super) memory: MemoryWatch,
    pub(super) settings: Settings,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) workers: Workers,
    pub(super) stopping: Option<Stopping>,
    pub(super) descriptor_limit: Option<u64>,
    /// How often this machine was restored.
    pub(super) generation: u64,
    /// While an instant of it is kept.
    pub(super) quiet: Option<Quiet>,
    pub(super) next_order: u32,
    /// Where reads land first.
    pub(super) scratch: Vec<u8>,
    signals: Watched,
}

/// Serves the worker on two pipes until it says `stop`; returns the exit code.
pub fn serve(input: OwnedFd, output: OwnedFd) -> io::Result<i32> {
    let descriptor_limit = super::start::prepare_process()?;
    let mut machine = Machine::new(input, output, descriptor_limit)?;
    let wakes = Watched::new(machine.mailbox.waker.duplicate()?, &machine.poller, Source::Mailbox);
    let mut wakes = wakes?;
    wakes.want(true, false);
    machine.settle();
    loop {
        if let Some(code) = machine.turn()? {
            return Ok(code);
        }
    }
}

impl Machine {
    fn new(input: OwnedFd, output: OwnedFd, descriptor_limit: Option<u64>) -> io::Result<Self> {
        let poller = Poller::new()?;
        let mailbox = Arc::new(Mailbox::new()?);
        let mut signals = Watched::new(super::start::signals()?, &poller, Source::Signals)?;
        signals.want(true, false);
        Ok(Self {
            connection: Connection::new(input, output, &poller)?,
            streams: Streams::new(mailbox.waker.clone()),
            execs: Execs::default(),
            ports: Ports::default(),
            memory: MemoryWatch::default(),
            settings: Settings::default(),
            workers: Workers::default(),
            stopping: None,
            next_order: 1,
            scratch: Vec::new(),
            descriptor_limit,
            generation: 0,
            quiet: None,
            mailbox,
            signals,
            poller,
        })
    }

    /// Waits once, and does everything that can be done then.
    fn turn(&mut self) -> io::Result<Option<i32>> {
        if self.quiet.is_some() {
            self.quiet_turn();
        } else {
            self.wait()?;
        }
        if self.quiet.is_some() {
            self.connection.flush();
            return Ok(None);
        }
        for post in self.mailbox.take() {
            self.deliver(post);
        }
        let now = Instant::now();
        self.connection.reopen(now);
        self.exec_timers(now);
        self.memory_tick(now);
        self.exec_feed_all();
        self.ports_move();
        self.send();
        self.settle();
        Ok(self.stop_tick(Instant::now()))
    }

    /// Until something is ready or due, and does what is ready.
    fn wait(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let limit = self.next_deadline().map(|at| at.saturating_duration_since(now));
        for source in self.poller.wait(limit)? {
            self.ready(source);
        }
        Ok(())
    }

    fn next_deadline(&self) -> Option<Instant> {
        let stop = self.stopping.as_ref().and_then(|stopping| stopping.next_deadline());
        [self.execs.next_deadline(), self.memory_deadline(), self.connection.retry_at(), stop]
            .into_iter()
            .flatten()
            .min()
    }

    fn ready(&mut self, source: Source) {
        match source {
            Source::Requests => self.receive(),
            Source::Replies => {}
            Source::Signals => self.collect(),
            Source::Mailbox => self.mailbox.waker.clear(),
            Source::Stdout(slot) => self.exec_readable(slot, false),
            Source::Stderr(slot) => self.exec_readable(slot, true),
            Source::Stdin(slot) => self.exec_feed(slot),
            Source::Keeper(slot) => self.exec_news(slot),
            Source::Port(slot) => self.port_ready(slot),
        }
    }

    /// Frames that wait, then those of streams, as long as the channel takes them.
    fn send(&mut self) {
        loop {
            if !self.connection.flush() || self.quiet.is_some() {
                return;
            }
            self.streams.tell_credit(&mut self.connection.writer);
            let (answers, more) = self.streams.pump(&mut self.connection.writer);
            answers.into_iter().for_each(|post| self.deliver(post));
            if !more && self.connection.writer.is_empty() {
                return;
            }
        }
    }

    fn settle(&mut self) {
        self.connection.watch();
        self.exec_watch_all();
        self.ports_watch();
    }

    /// A thread's answer, in its place among the frames of the stream it belongs to.
    pub(super) fn deliver(&mut self, mut post: Post) {
        if std::mem::take(&mut post.worked) {
            self.worked();
        }
        if post.result.as_ref().is_ok_and(Value::is_null) {
            return;
        }
        if let Some(stream) = post.after.take() {
            if let Err(error) = &post.result {
                self.streams.finish(stream, End::Failed(error.code, error.message.clone()));
            }
            match self.streams.answer_after(stream, post) {
                Some(without_stream) => post = without_stream,
                None => return,
            }
        }
        let failed = post.result.is_err();
        self.reply(post.ticket, post.result.map(Into::into));
        if let Some(stream) = post.opens {
            if failed { self.streams.discard(stream) } else { self.streams.open(stream) }
        }
    }

    /// Answers a request of this connection; another's is forgotten.
    pub(super) fn reply(&mut self, ticket: Ticket, answer: Answer) {
        if ticket.epoch == self.connection.epoch {
            self.connection.reply(ticket.sequence, answer);
        }
    }

    /// Collects children that have ended: keepers, and orphans of keepers that somebody killed.
    fn collect(&mut self) {
        for signal in super::start::taken_signals(self.signals.raw()) {
            if signal == libc::SIGTERM && self.stopping.is_none() {
                self.begin_stop(None, Duration::from_secs(5));
            }
        }
        // SAFETY: no status is wanted.
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
    }
}
