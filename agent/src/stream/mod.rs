//! Rows that do not wait for each other: what is out, and in which order it goes on.
//!
//! `docs/internals/stream.md` is the contract. A batch and the stream exclude each other, so that what a row does
//! (`batches`, `shard/answers`) is the same code for both; only who keeps the outcome differs.

mod dispatch;
mod send;
mod tell;

use crate::batches::batch::Message;
use std::collections::VecDeque;
use std::rc::Rc;

/// Everything that is out.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// By local row; empty until the first message.
    out: Vec<Option<Out>>,
    /// Rows that are out, finished ones included until they are told.
    count: usize,
    /// Rows that go on once fewer run.
    waiting: VecDeque<usize>,
    /// Rows in the stage `Running`.
    running: usize,
    /// Rows to tell at the end of this turn.
    finished: Vec<usize>,
    /// Late replies that were told, or came while nothing was out.
    late_told: u64,
}

/// One row that is out.
#[derive(Debug)]
struct Out {
    message: Asked,
    is_step: bool,
    binary: bool,
    stage: Stage,
    reward: f64,
    terminated: bool,
    truncated: bool,
    failed: bool,
    straggler: bool,
    took_us: u64,
}

/// The message a row was named in, as long as its bytes may be needed: a step's until its line was made, a reset's
/// until its answer, because it may be sent twice.
type Asked = Option<Rc<Message>>;

/// How far a row has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Was not asked yet.
    Waiting,
    /// Has its line.
    Running,
    /// A reset that waits for a process, and for its turn once that is there.
    Paused,
    /// Has a result that was not told.
    Finished,
}

impl Stream {
    /// What a row was asked for, as long as it is needed.
    #[inline]
    pub(crate) fn message(&self, local: usize) -> Option<&Message> {
        self.of(local)?.message.as_deref()
    }

    /// Which message that is: rows of the same one can be asked together.
    #[inline]
    pub(crate) fn asked_in(&self, local: usize) -> Option<*const Message> {
        self.of(local)?.message.as_ref().map(Rc::as_ptr)
    }

    /// Rows at the head of the queue that can be asked together with the first: those of its process and its message.
    fn leading(&self, is_of_process: impl Fn(usize) -> bool) -> usize {
        let message = self.waiting.front().and_then(|first| self.asked_in(*first));
        let alike = |local: usize| {
            is_of_process(local) && self.stage(local) == Some(Stage::Waiting) && self.asked_in(local) == message
        };
        self.waiting.iter().take_while(|local| alike(**local)).count()
    }

    /// Notes a step's outcome.
    #[inline]
    pub(crate) fn note_step(&mut self, local: usize, reward: f64, terminated: bool, truncated: bool) {
        if let Some(out) = self.of_mut(local) {
            (out.reward, out.terminated, out.truncated) = (reward, terminated, truncated);
        }
    }

    /// Notes a failure; a step ends by it, unless it had ended before (`after_end`).
    pub(crate) fn mark_failed(&mut self, local: usize, by_exception: bool, straggler: bool, after_end: bool) {
        if let Some(out) = self.of_mut(local) {
            out.failed = true;
            out.straggler = straggler;
            if after_end {
                return;
            }
            out.reward = 0.0;
            out.terminated = out.is_step && by_exception;
            out.truncated = out.is_step && !by_exception;
        }
    }

    /// A row has its result. Gives the message's bytes back when no other row needs them.
    #[inline]
    pub(crate) fn finish(&mut self, local: usize, took_us: u64) -> Option<Vec<u8>> {
        self.leave(local, Stage::Finished);
        let out = self.of_mut(local)?;
        out.took_us = took_us;
        self.finished.push(local);
        self.forget_message(local)
    }

    /// A row needs its message no longer. Gives its bytes back when no other row does either.
    fn forget_message(&mut self, local: usize) -> Option<Vec<u8>> {
        let message = self.of_mut(local)?.message.take()?;
        Rc::into_inner(message).map(|message| message.body)
    }

    /// A row waits for a process: others may run meanwhile.
    pub(crate) fn pause(&mut self, local: usize) {
        self.leave(local, Stage::Paused);
    }

    /// A row is sent its line.
    fn run(&mut self, local: usize) {
        if let Some(out) = self.of_mut(local) {
            out.stage = Stage::Running;
            self.running += 1;
        }
    }

    fn leave(&mut self, local: usize, stage: Stage) {
        if let Some(out) = self.of_mut(local) {
            let ran = std::mem::replace(&mut out.stage, stage) == Stage::Running;
            self.running -= usize::from(ran);
        }
    }

    fn stage(&self, local: usize) -> Option<Stage> {
        self.of(local).map(|out| out.stage)
    }

    fn of(&self, local: usize) -> Option<&Out> {
        self.out.get(local)?.as_ref()
    }

    fn of_mut(&mut self, local: usize) -> Option<&mut Out> {
        self.out.get_mut(local)?.as_mut()
    }
}
