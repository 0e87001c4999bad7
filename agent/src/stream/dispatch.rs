//! Sends rows that are out their lines, as many as may run at once.

use super::Stage;
use crate::rows::pack::Life;
use crate::rows::row::{NEVER, ResetTask, Task};
use crate::shard::Shard;

impl Shard {
    /// Asks rows in the order of their messages; a reset whose process came goes first.
    pub(crate) fn dispatch_stream(&mut self) {
        let limit = self.in_flight_limit();
        while self.stream.running < limit {
            let Some(local) = self.stream.waiting.pop_front() else {
                return;
            };
            match self.stream.stage(local) {
                Some(Stage::Waiting) => self.set_going(local),
                Some(Stage::Paused) => self.resume(local),
                // It failed while it waited.
                _ => {}
            }
        }
    }

    fn set_going(&mut self, local: usize) {
        self.stream.run(local);
        let slot = self.rows[local].slot;
        if !self.stream.of(local).is_some_and(|out| out.is_step) {
            return self.reset_row(local, slot);
        }
        self.step_row(local, slot);
        if let Some(body) = self.stream.forget_message(local) {
            self.worker.give_back(body);
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
            self.stream.run(local);
            self.send_reset(local, task);
        }
    }
}
