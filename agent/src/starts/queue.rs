//! Which packs wait for a process, and how many start at once.

use crate::channel::request::Way;
use crate::rows::error::{ErrorKind, RowError};
use crate::rows::pack::Life;
use crate::rows::row::{NEVER, Task};
use crate::shard::Shard;
use crate::starts::template::TemplateState;
use crate::system;
use std::collections::VecDeque;

/// Forks that the template has not answered, and children that have not said hello.
const FORKS_AT_ONCE: usize = 64;
/// Starts that may fail running before a pack is lost.
const TRIES: u8 = 3;

/// The packs without a process.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// Packs whose last process has to be cleaned up first.
    pub(crate) dirty: VecDeque<usize>,
    /// Packs that can start.
    pub(crate) clean: VecDeque<usize>,
    /// Packs that started and have not said hello.
    pub(crate) running: usize,
    /// True when packs are forks of a template.
    pub(crate) by_fork: bool,
    /// Why they are not, when they might have been.
    pub(crate) reason: Option<String>,
}

impl Shard {
    /// True while something waits to be killed and wiped.
    pub(crate) fn has_cleaning(&self) -> bool {
        !self.starts.dirty.is_empty()
    }

    /// Puts a pack without a process in line; one that a reset waits for goes first.
    pub(crate) fn queue_start(&mut self, number: usize, dirty: bool) {
        self.packs[number].life = Life::Queued { dirty };
        let urgent = self.is_awaited(number);
        let queue = if dirty { &mut self.starts.dirty } else { &mut self.starts.clean };
        if urgent { queue.push_front(number) } else { queue.push_back(number) }
    }

    /// True when a reset waits for its process.
    fn is_awaited(&self, number: usize) -> bool {
        self.rows[self.packs[number].rows.clone()]
            .iter()
            .any(|row| matches!(row.task, Task::AwaitProcess(_) | Task::AwaitRestore))
    }

    /// A reset waits for this pack now: moves it to the front.
    pub(crate) fn hurry_start(&mut self, number: usize) {
        if let Life::Queued { dirty } = self.packs[number].life {
            let queue = if dirty { &mut self.starts.dirty } else { &mut self.starts.clean };
            if queue.front() != Some(&number) {
                queue.retain(|waiting| *waiting != number);
                queue.push_front(number);
            }
        }
    }

    /// Starts what may start. Cleaning up takes milliseconds of this thread, so at most one pack is cleaned in a turn:
    /// when the loop is idle, after a reply, or because a reset waits for it.
    pub(crate) fn pump_starts(&mut self, spare_time: bool) {
        if self.broken || self.closing.is_some() || self.copies_are_made() {
            return;
        }
        if let Some(&number) = self.starts.dirty.front() {
            let urgent = self.is_awaited(number);
            if spare_time || urgent {
                self.starts.dirty.pop_front();
                self.clean(number);
            }
        }
        let limit = if self.starts.by_fork { FORKS_AT_ONCE } else { self.settings.spawn_parallel.max(1) };
        while self.starts.running < limit && !self.starts.clean.is_empty() && self.can_start() {
            if let Some(number) = self.starts.clean.pop_front() {
                self.begin_start(number);
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

    fn clean(&mut self, number: usize) {
        let identity = &self.packs[number].identity;
        let killed = self.isolation.kill_everything(identity);
        let wiped = self.isolation.remove_workspace(identity);
        self.collect_exits();
        match (killed, wiped) {
            (Ok(report), Ok(())) if report.complete() => self.queue_start(number, false),
            (Ok(report), Ok(())) => {
                let message = format!("processes {:?} of the environment do not end", report.remaining);
                self.start_failed(number, RowError::new(ErrorKind::Crash, "start", message));
            }
            (Err(error), _) | (_, Err(error)) => {
                self.start_failed(number, RowError::new(ErrorKind::Crash, "start", error.to_string()));
            }
        }
    }

    fn begin_start(&mut self, number: usize) {
        let now_us = system::now_us();
        let deadline_us = now_us + self.settings.deadlines_ms.start * 1000;
        let pack = &mut self.packs[number];
        pack.epoch = pack.epoch.wrapping_add(1);
        pack.life = Life::Starting;
        pack.last_id = 0;
        pack.late = 0;
        pack.ending = false;
        pack.deadline_us = deadline_us;
        let rows = pack.rows.clone();
        self.starts.running += 1;
        self.note_deadline(deadline_us);
        for row in &mut self.rows[rows] {
            row.fresh = true;
            row.ended = false;
        }
        let identity = &self.packs[number].identity;
        let oom_kills_before = self.isolation.oom_kills(identity);
        let begun = self.isolation.create_workspace(identity).map(|()| self.hold_files(number));
        let begun = begun.and_then(|files| {
            let started = if self.starts.by_fork { self.begin_fork(number) } else { self.spawn(number) };
            started.map(|()| files)
        });
        match begun {
            Ok(files) => {
                if let Some(process) = &mut self.packs[number].process {
                    process.oom_kills_before = oom_kills_before;
                    process.files = files;
                }
            }
            Err(error) => self.start_failed(number, RowError::new(ErrorKind::Crash, "start", error.to_string())),
        }
    }

    /// A process has said hello.
    pub(crate) fn became_ready(&mut self, number: usize) {
        self.starts.running -= 1;
        let pack = &mut self.packs[number];
        pack.life = Life::Ready;
        pack.deadline_us = NEVER;
        pack.failed_starts = 0;
        let _ = self.isolation.detach_workspace(&pack.identity);
        if self.is_probe(number) {
            return self.reset_probe(number);
        }
        let pack = &mut self.packs[number];
        for local in pack.rows.clone() {
            match std::mem::replace(&mut self.rows[local].task, Task::None) {
                Task::AwaitProcess(task) => self.reset_in_new_process(local, task),
                Task::AwaitRestore => self.set_state(local),
                other => self.rows[local].task = other,
            }
        }
        self.ask_waiting(number);
        self.note_started(number);
    }

    /// A start came to nothing: three running make the pack lost; during creation one is enough.
    pub(crate) fn start_failed(&mut self, number: usize, error: RowError) {
        let (error, _) = self.with_evidence(number, error);
        self.discard_process(number);
        if self.is_probe(number) {
            return self.probe_failed(number, &error);
        }
        if self.creation.is_some() {
            return self.fail_creation(self.packs[number].rows.start, &error);
        }
        let error = self.naming_rows(number, error);
        let pack = &mut self.packs[number];
        pack.failed_starts += 1;
        if pack.failed_starts < TRIES {
            return self.queue_start(number, true);
        }
        pack.life = Life::Lost;
        let message = format!(
            "{TRIES} starts failed running, the last one with {}: {}; a hard reset tries again",
            error.kind.name(),
            error.message
        );
        let lost = RowError { kind: ErrorKind::Lost, message, ..error };
        for local in self.packs[number].rows.clone() {
            self.become_failed(local, lost.clone());
        }
    }

    /// Ends what a pack has, and lines it up for a new process.
    pub(crate) fn replace(&mut self, number: usize) {
        self.discard_process(number);
        self.packs[number].failed_starts = 0;
        self.packs[number].replacements += 1;
        self.packs[number].log.mark_replaced();
        self.counters.replacements += 1;
        self.queue_start(number, true);
    }

    /// How packs start now.
    pub(crate) fn way(&self) -> Way {
        if self.starts.by_fork { Way::Fork } else { Way::Spawn }
    }
}
