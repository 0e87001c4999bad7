//! What was due and did not come.

use super::Shard;
use crate::rows::error::{ErrorKind, RowError};
use crate::rows::row::NEVER;

impl Shard {
    /// Looks at every deadline. Called at most once for each time that one passes: `earliest_us` is only a lower
    /// bound, so that answers in time cost nothing.
    pub(crate) fn expire(&mut self, now_us: u64) {
        self.earliest_us = NEVER;
        let mut due = Vec::new();
        for (number, pack) in self.packs.iter().enumerate() {
            if pack.deadline_us <= now_us {
                due.push(number);
            } else {
                self.earliest_us = self.earliest_us.min(pack.deadline_us);
            }
        }
        for number in due {
            self.pack_due(number, now_us);
        }
        self.watch_memory(now_us);
        self.expire_waits(now_us);
        self.expire_copies(now_us);
        if self.template.deadline_us() <= now_us {
            self.template_due();
        }
        self.note_deadline(self.template.deadline_us());
        if let Some(closing) = &self.closing {
            self.note_deadline(closing.deadline_us);
        }
    }

    fn pack_due(&mut self, number: usize, now_us: u64) {
        let pack = &self.packs[number];
        // One that was due with it may have ended it.
        if pack.deadline_us > now_us {
            return self.note_deadline(pack.deadline_us);
        }
        if pack.ending {
            return self.crashed(number);
        }
        self.timed_out(number);
    }

    /// Rows that waited too long for a process. The replacement goes on; only this reset has failed.
    fn expire_waits(&mut self, now_us: u64) {
        for local in 0..self.rows.len() {
            let row = &mut self.rows[local];
            if row.process_deadline_us > now_us {
                let deadline_us = row.process_deadline_us;
                self.note_deadline(deadline_us);
                continue;
            }
            row.process_deadline_us = NEVER;
            let seconds = self.settings.deadlines_ms.start as f64 / 1000.0;
            let message = format!("no process to reset within {seconds} s");
            let mut error = RowError::new(ErrorKind::Timeout, "reset", message);
            error.deadline_s = Some(seconds);
            self.become_failed(local, error);
        }
    }
}
