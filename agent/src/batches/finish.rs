//! Rows that are done.

use crate::packs::Outcomes;
use crate::rows::error::{ErrorKind, RowError};
use crate::rows::row::Task;
use crate::shard::Shard;
use crate::system;

impl Shard {
    /// Notes a step's outcome.
    #[inline]
    pub(crate) fn note_step(&mut self, local: usize, reward: f64, terminated: bool, truncated: bool) {
        let slot = self.rows[local].slot;
        if let Some(batch) = &mut self.batch {
            batch.outcomes.rewards[slot] = reward;
            batch.outcomes.terminated[slot] = u8::from(terminated);
            batch.outcomes.truncated[slot] = u8::from(truncated);
        } else {
            self.stream.note_step(local, reward, terminated, truncated);
        }
    }

    /// Notes the outcomes of a step of several rows.
    pub(crate) fn note_steps(&mut self, rows: &[usize], outcomes: &Outcomes) {
        let Some(batch) = &mut self.batch else {
            for (place, local) in rows.iter().enumerate() {
                let flags = (outcomes.terminated[place] != 0, outcomes.truncated[place] != 0);
                self.stream.note_step(*local, outcomes.rewards[place], flags.0, flags.1);
            }
            return;
        };
        let noted = &mut batch.outcomes;
        let slots =
            rows.first().zip(rows.last()).map(|(first, last)| self.rows[*first].slot..self.rows[*last].slot + 1);
        if let Some(slots) = slots.filter(|slots| slots.len() == rows.len()) {
            noted.rewards[slots.clone()].copy_from_slice(&outcomes.rewards);
            noted.terminated[slots.clone()].copy_from_slice(&outcomes.terminated);
            return noted.truncated[slots].copy_from_slice(&outcomes.truncated);
        }
        for (place, local) in rows.iter().enumerate() {
            let slot = self.rows[*local].slot;
            noted.rewards[slot] = outcomes.rewards[place];
            noted.terminated[slot] = outcomes.terminated[place];
            noted.truncated[slot] = outcomes.truncated[place];
        }
    }

    /// All rows of a quiet process have what the batch wanted.
    pub(crate) fn finish_quiet_rows(&mut self, number: usize, rows: &[usize]) {
        let took_us = system::now_us().saturating_sub(self.packs[number].sent_us);
        if let (Some(batch), Some(last)) = (&mut self.batch, rows.last()) {
            batch.done += rows.len();
            batch.outcomes.note_time(self.rows[*last].index, took_us);
        }
    }

    /// Those of the rows of a message that a closure names have what the batch wanted.
    pub(crate) fn finish_rows(&mut self, number: usize, rows: &[usize], finished: &dyn Fn(usize) -> bool) {
        let took_us = system::now_us().saturating_sub(self.packs[number].sent_us);
        let mut count = 0;
        let mut last = 0;
        for (place, local) in rows.iter().enumerate() {
            if !finished(place) {
                continue;
            }
            self.rows[*local].task = Task::None;
            count += 1;
            last = *local;
            if self.batch.is_none()
                && let Some(body) = self.stream.finish(*local, took_us)
            {
                self.worker.give_back(body);
            }
        }
        if let Some(batch) = self.batch.as_mut().filter(|_| count > 0) {
            batch.done += count;
            batch.outcomes.note_time(self.rows[last].index, took_us);
        }
        if self.creation.is_some() {
            self.tell_progress(false);
        }
    }

    /// A row has what the batch wanted.
    #[inline]
    pub(crate) fn finish_row(&mut self, local: usize) {
        let sent_us = self.packs[self.rows[local].pack].sent_us;
        self.finish_after(local, system::now_us().saturating_sub(sent_us));
    }

    #[inline]
    fn finish_after(&mut self, local: usize, took_us: u64) {
        let row = &mut self.rows[local];
        row.task = Task::None;
        let index = row.index;
        if let Some(batch) = &mut self.batch {
            batch.done += 1;
            batch.outcomes.note_time(index, took_us);
        } else if let Some(body) = self.stream.finish(local, took_us) {
            self.worker.give_back(body);
        }
        if self.creation.is_some() {
            self.tell_progress(false);
        }
    }

    /// A row failed; its error is in place. `after_end`: in the reset after an episode's end, whose reward, flags, last
    /// observation and info are told all the same.
    pub(crate) fn finish_with_error(&mut self, local: usize, after_end: bool) {
        self.show_error(local, after_end);
        if after_end {
            self.tell_end(local);
        }
        self.finish_row(local);
    }

    /// A failed row that is asked again: nothing is sent.
    pub(crate) fn repeat_error(&mut self, local: usize) {
        self.show_error(local, false);
        self.finish_after(local, 0);
    }

    /// A call that raised: the row itself goes on.
    pub(crate) fn finish_failed_call(&mut self, local: usize, error: &RowError) {
        let row = &mut self.rows[local];
        row.info.clear();
        error.write_info(false, &mut row.info.text);
        self.mark_failed(local, error.kind, false, false);
        self.finish_row(local);
    }

    fn show_error(&mut self, local: usize, after_end: bool) {
        let row = &mut self.rows[local];
        let Some(error) = &row.error else {
            return;
        };
        row.info.clear();
        row.result.clear();
        error.write_info(row.error_shown, &mut row.info.text);
        let (kind, repeated) = (error.kind, row.error_shown);
        row.error_shown = true;
        self.mark_failed(local, kind, repeated, after_end);
    }

    fn mark_failed(&mut self, local: usize, kind: ErrorKind, repeated: bool, after_end: bool) {
        let (slot, index) = (self.rows[local].slot, self.rows[local].index);
        let straggler = kind == ErrorKind::Timeout && !repeated;
        let Some(batch) = &mut self.batch else {
            return self.stream.mark_failed(local, kind == ErrorKind::Exception, straggler, after_end);
        };
        let is_step = batch.message.is_step();
        let outcomes = &mut batch.outcomes;
        outcomes.failed[slot] = true;
        outcomes.failures += 1;
        if is_step && !after_end {
            outcomes.rewards[slot] = 0.0;
            outcomes.terminated[slot] = u8::from(kind == ErrorKind::Exception);
            outcomes.truncated[slot] = u8::from(kind != ErrorKind::Exception);
        }
        if straggler {
            outcomes.stragglers.push(index);
        }
    }
}
