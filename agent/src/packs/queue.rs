//! Rows that wait for their process, which is asked one message at a time.

use crate::rows::pack::{Asked, Life};
use crate::rows::row::{NEVER, ResetTask, Task};
use crate::shard::Shard;

impl Shard {
    /// True when the process is asked in the messages of several rows.
    #[inline]
    pub(crate) fn is_packed(&self, number: usize) -> bool {
        self.packs[number].packed.is_some()
    }

    /// The row is to be stepped; whoever queues calls `ask_waiting` at the end.
    #[inline]
    pub(crate) fn queue_step(&mut self, local: usize) {
        let row = &mut self.rows[local];
        row.task = Task::Step;
        if let Some(packed) = &mut self.packs[row.pack].packed {
            packed.steps.push(local);
        }
    }

    /// The row is to be reset; whoever queues calls `ask_waiting` at the end.
    pub(crate) fn queue_reset(&mut self, local: usize, task: ResetTask) {
        let row = &mut self.rows[local];
        row.process_deadline_us = NEVER;
        row.task = Task::Reset(task);
        if let Some(packed) = &mut self.packs[row.pack].packed {
            packed.resets.push(local);
        }
    }

    /// The row is to be called; whoever queues calls `ask_waiting` at the end.
    pub(crate) fn queue_call(&mut self, local: usize) {
        let row = &mut self.rows[local];
        row.task = Task::Call;
        if let Some(packed) = &mut self.packs[row.pack].packed {
            packed.calls.push(local);
        }
    }

    /// Sends the next message of a process that answered its last one: rows that wait for the same go together.
    pub(crate) fn ask_waiting(&mut self, number: usize) {
        let pack = &mut self.packs[number];
        if pack.asked != Asked::Nothing || pack.life != Life::Ready {
            return;
        }
        let Some(packed) = &mut pack.packed else {
            return;
        };
        packed.asked.clear();
        // Rows that are out on the stream may have been named in different messages; those of one go together.
        let stream = &self.stream;
        if !packed.steps.is_empty() {
            std::mem::swap(&mut packed.asked, &mut packed.steps);
            if self.batch.is_none() {
                let message = stream.asked_in(packed.asked[0]);
                packed.steps.extend(packed.asked.extract_if(.., |local| stream.asked_in(*local) != message));
            }
            self.ask_steps(number);
        } else if let Some(&first) = packed.resets.first() {
            // A message is hard for all of its rows or for none.
            let rows = &self.rows;
            let is_hard = |local: usize| matches!(&rows[local].task, Task::Reset(task) if task.hard);
            let kind = |local: usize| (is_hard(local), stream.asked_in(local));
            let wanted = kind(first);
            let (now, later) = packed.resets.iter().partition(|local| kind(**local) == wanted);
            (packed.asked, packed.resets) = (now, later);
            packed.asked.sort_unstable();
            self.ask_resets(number, wanted.0);
        } else if !packed.calls.is_empty() {
            std::mem::swap(&mut packed.asked, &mut packed.calls);
            self.ask_calls(number);
        } else if !packed.restores.is_empty() {
            std::mem::swap(&mut packed.asked, &mut packed.restores);
            self.ask_restores(number);
        }
    }
}
