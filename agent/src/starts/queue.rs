//! Which rows wait for a process, and how many start at once.

use crate::channel::request::Way;
use crate::rows::error::{ErrorKind, RowError};
use crate::rows::row::{Life, NEVER, Task};
use crate::shard::Shard;
use crate::starts::template::TemplateState;
use crate::system;
use std::collections::VecDeque;

/// Forks that the template has not answered, and children that have not said hello.
const FORKS_AT_ONCE: usize = 64;
/// Starts that may fail running before a row is lost.
const TRIES: u8 = 3;

/// The rows without a process.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// Rows whose last process has to be cleaned up first.
    pub(crate) dirty: VecDeque<usize>,
    /// Rows that can start.
    pub(crate) clean: VecDeque<usize>,
    /// Rows that started and have not said hello.
    pub(crate) running: usize,
    /// True when rows are forks of a template.
    pub(crate) by_fork: bool,
    /// Why they are not, when they might have been.
    pub(crate) reason: Option<String>,
}

impl Shard {
    /// True while something waits to be killed and wiped.
    pub(crate) fn has_cleaning(&self) -> bool {
        !self.starts.dirty.is_empty()
    }

    /// Puts a row without a process in line; a row that a reset waits for goes first.
    pub(crate) fn queue_start(&mut self, local: usize, dirty: bool) {
        let row = &mut self.rows[local];
        row.life = Life::Queued { dirty };
        let urgent = matches!(row.task, Task::AwaitProcess(_));
        let queue = if dirty { &mut self.starts.dirty } else { &mut self.starts.clean };
        if urgent { queue.push_front(local) } else { queue.push_back(local) }
    }

    /// A reset waits for this row now: moves it to the front.
    pub(crate) fn hurry_start(&mut self, local: usize) {
        if let Life::Queued { dirty } = self.rows[local].life {
            let queue = if dirty { &mut self.starts.dirty } else { &mut self.starts.clean };
            queue.retain(|waiting| *waiting != local);
            queue.push_front(local);
        }
    }

    /// Starts what may start. Cleaning up takes milliseconds of this thread, so at most one row is cleaned in a turn:
    /// when the loop is idle, after a reply, or because a reset waits for it.
    pub(crate) fn pump_starts(&mut self, spare_time: bool) {
        if self.broken || self.closing.is_some() {
            return;
        }
        if let Some(&local) = self.starts.dirty.front() {
            let urgent = matches!(self.rows[local].task, Task::AwaitProcess(_));
            if spare_time || urgent {
                self.starts.dirty.pop_front();
                self.clean(local);
            }
        }
        let limit = if self.starts.by_fork { FORKS_AT_ONCE } else { self.settings.spawn_parallel.max(1) };
        while self.starts.running < limit && !self.starts.clean.is_empty() && self.can_start() {
            if let Some(local) = self.starts.clean.pop_front() {
                self.begin_start(local);
            }
        }
    }

    fn can_start(&mut self) -> bool {
        if !self.starts.by_fork {
            return true;
        }
        if self.template.state == TemplateState::Absent {
            self.start_template();
        }
        self.template.state == TemplateState::Ready
    }

    fn clean(&mut self, local: usize) {
        let identity = &self.rows[local].identity;
        let killed = self.isolation.kill_everything(identity);
        let wiped = self.isolation.remove_workspace(identity);
        self.collect_exits();
        match (killed, wiped) {
            (Ok(report), Ok(())) if report.complete() => self.queue_start(local, false),
            (Ok(report), Ok(())) => {
                let message = format!("processes {:?} of the row do not end", report.remaining);
                self.start_failed(local, RowError::new(ErrorKind::Crash, "start", message));
            }
            (Err(error), _) | (_, Err(error)) => {
                self.start_failed(local, RowError::new(ErrorKind::Crash, "start", error.to_string()));
            }
        }
    }

    fn begin_start(&mut self, local: usize) {
        let now_us = system::now_us();
        let deadline_us = now_us + self.settings.deadlines_ms.start * 1000;
        let row = &mut self.rows[local];
        row.epoch = row.epoch.wrapping_add(1);
        row.life = Life::Starting;
        row.last_id = 0;
        row.late = 0;
        row.fresh = true;
        row.ended = false;
        row.ending = false;
        row.deadline_us = deadline_us;
        self.starts.running += 1;
        self.note_deadline(deadline_us);
        let identity = &self.rows[local].identity;
        let oom_kills_before = self.isolation.oom_kills(identity);
        let begun = self.isolation.create_workspace(identity);
        let begun = begun.and_then(|()| if self.starts.by_fork { self.begin_fork(local) } else { self.spawn(local) });
        match begun {
            Ok(()) => {
                if let Some(process) = &mut self.rows[local].process {
                    process.oom_kills_before = oom_kills_before;
                }
            }
            Err(error) => self.start_failed(local, RowError::new(ErrorKind::Crash, "start", error.to_string())),
        }
    }

    /// A process has said hello.
    pub(crate) fn became_ready(&mut self, local: usize) {
        self.starts.running -= 1;
        let row = &mut self.rows[local];
        row.life = Life::Ready;
        row.deadline_us = NEVER;
        row.failed_starts = 0;
        let _ = self.isolation.detach_workspace(&row.identity);
        match std::mem::replace(&mut row.task, Task::None) {
            Task::AwaitProcess(task) => self.reset_in_new_process(local, task),
            other => row.task = other,
        }
        self.note_started(local);
    }

    /// A start came to nothing: three running make the row lost; during creation one is enough.
    pub(crate) fn start_failed(&mut self, local: usize, error: RowError) {
        let (error, _) = self.with_evidence(local, error);
        self.discard_process(local);
        if self.creation.is_some() {
            return self.fail_creation(local, &error);
        }
        let row = &mut self.rows[local];
        row.failed_starts += 1;
        if row.failed_starts < TRIES {
            return self.queue_start(local, true);
        }
        row.life = Life::Lost;
        let message = format!(
            "{TRIES} starts failed running, the last one with {}: {}; a hard reset tries again",
            error.kind.name(),
            error.message
        );
        let lost = RowError { kind: ErrorKind::Lost, message, ..error };
        self.become_failed(local, lost);
    }

    /// Ends what a row has, and lines it up for a new process.
    pub(crate) fn replace(&mut self, local: usize) {
        self.discard_process(local);
        self.rows[local].failed_starts = 0;
        self.rows[local].replacements += 1;
        self.rows[local].log.mark_replaced();
        self.counters.replacements += 1;
        self.queue_start(local, true);
    }

    /// How rows start now.
    pub(crate) fn way(&self) -> Way {
        if self.starts.by_fork { Way::Fork } else { Way::Spawn }
    }
}
