//! The end of a shard: politely, then by force.

use super::Shard;
use crate::rows::error::{ErrorKind, RowError};
use crate::rows::row::{Life, Task};
use crate::stream::Stream;
use crate::system;

/// A close request that waits for the environments.
#[derive(Debug)]
pub(crate) struct Closing {
    sequence: u32,
    /// When politeness ends.
    pub(crate) deadline_us: u64,
}

impl Shard {
    /// Asks every environment to end. A batch that runs, and what is out, is given up.
    pub(crate) fn begin_close(&mut self, sequence: u32) {
        let deadline_us = system::now_us() + self.settings.deadlines_ms.close * 1000;
        self.closing = Some(Closing { sequence, deadline_us });
        self.note_deadline(deadline_us);
        self.creation = None;
        self.batch = None;
        self.stream = Stream::default();
        for local in 0..self.rows.len() {
            let idle = self.rows[local].task == Task::None && self.rows[local].life == Life::Ready;
            if self.rows[local].process.is_none() || !idle {
                self.discard_process(local);
                continue;
            }
            let mut line = std::mem::take(&mut self.line);
            self.begin_line(local, &mut line);
            line.extend_from_slice(b",\"op\":\"close\"}\n");
            self.rows[local].task = Task::Close;
            self.send_to_row(local, &line);
            self.line = line;
        }
        self.end_template(RowError::new(ErrorKind::Crash, "close", ""));
    }

    /// A row's process has ended while the shard closes.
    pub(crate) fn row_closed(&mut self, local: usize) {
        self.discard_process(local);
    }

    /// True once the shard may end: nothing runs any more, or the time is up.
    pub(crate) fn closed(&mut self) -> bool {
        let Some(closing) = &self.closing else {
            return false;
        };
        let running = self.rows.iter().any(|row| row.process.is_some());
        if running && system::now_us() < closing.deadline_us {
            return false;
        }
        let sequence = closing.sequence;
        self.end_everything();
        self.worker.reply(sequence, br#"{"ok":true}"#, []);
        true
    }

    /// Kills what is left of every row and the template, and removes the workspaces.
    pub(crate) fn end_everything(&mut self) {
        self.end_template(RowError::new(ErrorKind::Crash, "close", ""));
        for local in 0..self.rows.len() {
            self.discard_process(local);
        }
        let some_left = self.await_ends();
        for row in &self.rows {
            // Whatever cannot be ended now ends with this process, which is process 1 of its namespace.
            if some_left {
                let _ = self.isolation.kill_everything(&row.identity);
            }
            let _ = self.isolation.remove_workspace(&row.identity);
        }
        self.starts.clean.clear();
        self.starts.dirty.clear();
        self.earliest_us = crate::rows::row::NEVER;
    }

    /// Gives what was just killed a moment to be gone; true if something may be left.
    fn await_ends(&mut self) -> bool {
        const LOOKS: u32 = 20;
        for _ in 0..LOOKS {
            if !self.isolation.may_have_processes() {
                return false;
            }
            if self.settings.isolated {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            self.collect_exits();
        }
        true
    }
}
