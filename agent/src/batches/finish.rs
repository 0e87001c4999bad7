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
            batch.rewards[slot] = reward;
            batch.terminated[slot] = u8::from(terminated);
            batch.truncated[slot] = u8::from(truncated);
        }
    }

    /// Notes the outcomes of a step of several rows.
    pub(crate) fn note_steps(&mut self, rows: &[usize], outcomes: &Outcomes) {
        let Some(batch) = &mut self.batch else {
            return;
        };
        let slots =
            rows.first().zip(rows.last()).map(|(first, last)| self.rows[*first].slot..self.rows[*last].slot + 1);
        if let Some(slots) = slots.filter(|slots| slots.len() == rows.len()) {
            batch.rewards[slots.clone()].copy_from_slice(&outcomes.rewards);
            batch.terminated[slots.clone()].copy_from_slice(&outcomes.terminated);
            return batch.truncated[slots].copy_from_slice(&outcomes.truncated);
        }
        for (place, local) in rows.iter().enumerate() {
            let slot = self.rows[*local].slot;
            batch.rewards[slot] = outcomes.rewards[place];
            batch.terminated[slot] = outcomes.terminated[place];
            batch.truncated[slot] = outcomes.truncated[place];
        }
    }

    /// Those of the rows of a message that a closure names have what the batch wanted.
    pub(crate) fn finish_rows(&mut self, number: usize, rows: &[usize], finished: &dyn Fn(usize) -> bool) {
        let took_us = system::now_us().saturating_sub(self.packs[number].sent_us);
        let mut count = 0;
        let mut last = 0;
        for (place, local) in rows.iter().enumerate() {
            if finished(place) {
                self.rows[*local].task = Task::None;
                count += 1;
                last = *local;
            }
        }
        if let Some(batch) = self.batch.as_mut().filter(|_| count > 0) {
            batch.done += count;
            if took_us >= batch.slowest_us {
                batch.slowest_us = took_us;
                batch.slowest_row = self.rows[last].index;
            }
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
            if took_us >= batch.slowest_us {
                batch.slowest_us = took_us;
                batch.slowest_row = index;
            }
        }
        if self.creation.is_some() {
            self.tell_progress(false);
        }
    }

    /// A row failed; its error is in place.
    pub(crate) fn finish_with_error(&mut self, local: usize) {
        self.show_error(local);
        self.finish_row(local);
    }

    /// A failed row that is asked again: nothing is sent.
    pub(crate) fn repeat_error(&mut self, local: usize) {
        self.show_error(local);
        self.finish_after(local, 0);
    }

    /// A call that raised: the row itself goes on.
    pub(crate) fn finish_failed_call(&mut self, local: usize, error: &RowError) {
        let row = &mut self.rows[local];
        row.info.clear();
        error.write_info(false, &mut row.info.text);
        self.mark_failed(local, error.kind, false);
        self.finish_row(local);
    }

    fn show_error(&mut self, local: usize) {
        let row = &mut self.rows[local];
        let Some(error) = &row.error else {
            return;
        };
        row.info.clear();
        row.result.clear();
        error.write_info(row.error_shown, &mut row.info.text);
        let (kind, repeated) = (error.kind, row.error_shown);
        row.error_shown = true;
        self.mark_failed(local, kind, repeated);
    }

    fn mark_failed(&mut self, local: usize, kind: ErrorKind, repeated: bool) {
        let (slot, index) = (self.rows[local].slot, self.rows[local].index);
        let Some(batch) = &mut self.batch else {
            return;
        };
        batch.failed[slot] = true;
        batch.failures += 1;
        if batch.is_step() {
            batch.rewards[slot] = 0.0;
            batch.terminated[slot] = u8::from(kind == ErrorKind::Exception);
            batch.truncated[slot] = u8::from(kind != ErrorKind::Exception);
        }
        if kind == ErrorKind::Timeout && !repeated {
            batch.stragglers.push(index);
        }
    }
}
