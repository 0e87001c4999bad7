//! Resets: asked for, at the end of an episode, and the first one of all.

use super::batch::{Batch, Message, Spread, Work};
use super::begin::spread;
use crate::channel::error::RequestError;
use crate::channel::request::{self, Encoding, Seeds};
use crate::rows::pack::{Asked, Life};
use crate::rows::row::{NEVER, Purpose, ResetTask, Task};
use crate::rows::seeds::derived_seed;
use crate::shard::{Shard, parse};
use crate::system;
use crate::values::{items, numbers};

impl Shard {
    /// What a reset request asks for.
    pub(crate) fn reset_work(
        &self,
        head: &[u8],
        offset: usize,
        count: usize,
        body: &[u8],
    ) -> Result<Work, RequestError> {
        let reset: request::Reset = parse(head)?;
        if let Some(seeds) = reset.seeds.as_ref().filter(|seeds| seeds.len() != count) {
            return Err(RequestError::invalid(format!("received {} seeds, expected {count}", seeds.len())));
        }
        let options = spread(body, "options", |place| items::is_list(body, place), reset.total, offset, count)?;
        Ok(Work::Reset { seeds: reset.seeds, options, hard: reset.hard })
    }

    /// Resets all rows for the first time, as part of the start.
    pub(crate) fn begin_first_reset(&mut self) {
        let work = Work::Reset { seeds: None, options: Spread::Nothing, hard: false };
        let rows = (0..self.rows.len()).collect();
        self.tell_progress(true);
        let message = Message { encoding: Encoding::Json, work, rows, body: Vec::new() };
        self.run_batch(Box::new(Batch::new(0, 0, message)));
    }

    /// One row of a reset request; `part`: its process has rows that the request leaves alone.
    pub(crate) fn reset_row(&mut self, local: usize, slot: usize, part: bool) {
        let Some(Work::Reset { seeds, options, hard }) = self.message_of(local).map(|message| &message.work) else {
            return;
        };
        let hard = *hard;
        let given = seeds.as_ref().and_then(|seeds| seeds[slot]);
        let options = options.of(slot);
        let life = self.packs[self.rows[local].pack].life;
        if life == Life::Lost && !hard {
            return self.repeat_error(local);
        }
        let seed = self.next_seed(local, given, hard || life != Life::Ready);
        let purpose = Purpose::Request;
        let mut task = ResetTask { seed, options, purpose, hard: false, retried: false, deadline_us: None };
        match life {
            Life::Ready if !hard => self.send_reset(local, task),
            Life::Ready if part => {
                task.hard = true;
                self.send_reset(local, task);
            }
            _ => self.reset_when_ready(local, task, hard),
        }
    }

    /// Waits for a process to reset; a hard reset ends the one that is there.
    fn reset_when_ready(&mut self, local: usize, task: ResetTask, hard: bool) {
        let deadline_us = system::now_us() + self.settings.deadlines_ms.start * 1000;
        self.await_process(local, task, deadline_us);
        let number = self.rows[local].pack;
        match self.packs[number].life {
            Life::Ready | Life::Lost => self.replace(number),
            // A process that no reset has touched yet is as new as the one a hard reset would make.
            Life::Queued { .. } => self.hurry_start(number),
            Life::Starting | Life::Probe | Life::Branching => {}
        }
        if hard {
            self.packs[number].failed_starts = 0;
        }
    }

    /// The end of an episode, or a failed row whose replacement is ready.
    pub(crate) fn autoreset(&mut self, local: usize, purpose: Purpose) {
        let seed = self.next_seed(local, None, false);
        self.send_reset(
            local,
            ResetTask { seed, options: None, purpose, hard: false, retried: false, deadline_us: None },
        );
    }

    /// An exception in reset: a new process, and the same reset once more inside the same deadline.
    pub(crate) fn retry_reset(&mut self, local: usize, mut task: ResetTask) {
        let deadline_us = task.deadline_us.unwrap_or(NEVER);
        // A process that was just made is seeded for its first reset, whatever the pool's rule.
        task.seed = task.seed.or_else(|| self.seed_of_fresh_process(local));
        self.await_process(local, task, deadline_us);
        self.replace(self.rows[local].pack);
    }

    fn await_process(&mut self, local: usize, task: ResetTask, deadline_us: u64) {
        let row = &mut self.rows[local];
        row.process_deadline_us = deadline_us;
        row.task = Task::AwaitProcess(task);
        self.note_deadline(deadline_us);
        self.stream.pause(local);
    }

    fn seed_of_fresh_process(&self, local: usize) -> Option<u64> {
        let row = &self.rows[local];
        Some(derived_seed(self.pool_seed, row.index, row.episode.saturating_sub(1)))
    }

    /// The seed of the row's next reset; its episode counts on.
    fn next_seed(&mut self, local: usize, given: Option<u64>, new_process: bool) -> Option<u64> {
        let row = &mut self.rows[local];
        let episode = row.episode;
        row.episode += 1;
        let derived = self.settings.seeds == Seeds::Derived || new_process || row.fresh;
        given.or_else(|| derived.then(|| derived_seed(self.pool_seed, row.index, episode)))
    }

    /// Sends a reset, or queues it where rows are reset together; its clock starts now, unless it is the second try.
    pub(crate) fn send_reset(&mut self, local: usize, mut task: ResetTask) {
        let number = self.rows[local].pack;
        if self.is_packed(number) {
            return self.queue_reset(local, task);
        }
        let mut line = std::mem::take(&mut self.line);
        self.begin_line(number, &mut line);
        line.extend_from_slice(b",\"op\":\"reset\",\"seed\":");
        match task.seed {
            Some(seed) => numbers::write_u64(&mut line, seed),
            None => line.extend_from_slice(b"null"),
        }
        line.extend_from_slice(b",\"options\":");
        match (self.message_of(local), &task.options) {
            (Some(message), Some(place)) => items::append_line_safe(&mut line, &message.body[place.clone()]),
            _ => line.extend_from_slice(b"null"),
        }
        line.extend_from_slice(b"}\n");
        let row = &mut self.rows[local];
        row.process_deadline_us = NEVER;
        self.packs[number].deadline_us = task.deadline_us.unwrap_or(NEVER);
        let deadline_us =
            *task.deadline_us.get_or_insert_with(|| system::now_us() + self.settings.deadlines_ms.reset * 1000);
        self.rows[local].task = Task::Reset(task);
        let left_ms = deadline_us.saturating_sub(system::now_us()).div_ceil(1000);
        self.ask(number, Asked::Reset, &line, left_ms);
        self.line = line;
    }
}
