//! Sends rows that are out their lines, as many as may run at once.

use super::Stage;
use crate::rows::pack::Life;
use crate::rows::row::{NEVER, ResetTask, Task};
use crate::shard::Shard;

impl Shard {
    /// Asks rows in the order of their messages, those of one process and message together; a reset whose process came
    /// goes first.
    pub(crate) fn dispatch_stream(&mut self) {
        let limit = self.in_flight_limit();
        while self.stream.running < limit {
            let Some(&local) = self.stream.waiting.front() else {
                return;
            };
            match self.stream.stage(local) {
                Some(Stage::Waiting) => {
                    let number = self.rows[local].pack;
                    let rows = self.packs[number].rows.clone();
                    let count = self.stream.leading(|local| rows.contains(&local));
                    if self.stream.running > 0 && self.stream.running + count > limit {
                        return;
                    }
                    self.set_going(number, count);
                }
                Some(Stage::Paused) => {
                    self.stream.waiting.pop_front();
                    self.resume(local);
                }
                // It failed while it waited.
                _ => {
                    self.stream.waiting.pop_front();
                }
            }
        }
    }

    fn set_going(&mut self, number: usize, count: usize) {
        let part = count < self.packs[number].rows.len();
        let may_reset = self.may_reset(number);
        for _ in 0..count {
            let Some(local) = self.stream.waiting.pop_front() else {
                return;
            };
            self.stream.run(local);
            let slot = self.rows[local].slot;
            if !self.stream.of(local).is_some_and(|out| out.is_step) {
                self.reset_row(local, slot, part);
                continue;
            }
            self.step_row(local, slot, may_reset);
            if !self.is_packed(number) {
                self.forget_messages(&[local]);
            }
        }
        self.ask_waiting(number);
    }

    /// The line of these rows' step was made: their messages are needed no longer.
    pub(crate) fn forget_messages(&mut self, rows: &[usize]) {
        if self.batch.is_some() {
            return;
        }
        for local in rows {
            if let Some(body) = self.stream.forget_message(*local) {
                self.worker.give_back(body);
            }
        }
    }

    /// The process that a reset waits for has said hello.
    pub(crate) fn reset_in_new_process(&mut self, local: usize, task: ResetTask) {
        if self.stream.stage(local) != Some(Stage::Paused) {
            return self.send_reset(local, task);
        }
        if self.stream.running < self.in_flight_limit() {
            self.stream.run(local);
            return self.send_reset(local, task);
        }
        let row = &mut self.rows[local];
        // The process came in time; what is awaited now is the row's turn.
        if !task.retried {
            row.process_deadline_us = NEVER;
        }
        row.task = Task::AwaitProcess(task);
        self.stream.waiting.push_front(local);
    }

    fn resume(&mut self, local: usize) {
        let row = &mut self.rows[local];
        if self.packs[row.pack].life != Life::Ready {
            return;
        }
        if let Task::AwaitProcess(task) = std::mem::replace(&mut row.task, Task::None) {
            let number = row.pack;
            self.stream.run(local);
            self.send_reset(local, task);
            self.ask_waiting(number);
        }
    }
}
