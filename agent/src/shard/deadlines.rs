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
        for (local, row) in self.rows.iter().enumerate() {
            let deadline_us = row.deadline_us.min(row.process_deadline_us);
            if deadline_us <= now_us {
                due.push(local);
            } else {
                self.earliest_us = self.earliest_us.min(deadline_us);
            }
        }
        for local in due {
            self.row_due(local, now_us);
        }
        if self.template.deadline_us() <= now_us {
            self.template_due();
        }
        self.note_deadline(self.template.deadline_us());
        if let Some(closing) = &self.closing {
            self.note_deadline(closing.deadline_us);
        }
    }

    fn row_due(&mut self, local: usize, now_us: u64) {
        let row = &mut self.rows[local];
        if row.deadline_us <= now_us {
            if row.ending {
                return self.crashed(local);
            }
            return self.timed_out(local);
        }
        if row.process_deadline_us <= now_us {
            row.process_deadline_us = NEVER;
            let seconds = self.settings.deadlines_ms.start as f64 / 1000.0;
            let message = format!("no process to reset within {seconds} s");
            let mut error = RowError::new(ErrorKind::Timeout, "reset", message);
            error.deadline_s = Some(seconds);
            // The replacement goes on; only this reset has failed.
            self.become_failed(local, error);
        }
        let row = &self.rows[local];
        let deadline_us = row.deadline_us.min(row.process_deadline_us);
        self.note_deadline(deadline_us);
    }
}
