//! The end of a shard: politely, then by force.

use super::Shard;
use crate::rows::error::{ErrorKind, RowError};
use crate::rows::pack::{Asked, Life};
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
        self.end_copies();
        for number in 0..self.packs.len() {
            let idle = self.packs[number].asked == Asked::Nothing && self.packs[number].life == Life::Ready;
            if self.packs[number].process.is_none() || !idle {
                self.discard_process(number);
                continue;
            }
            let mut line = std::mem::take(&mut self.line);
            self.begin_line(number, &mut line);
            line.extend_from_slice(b",\"op\":\"close\"}\n");
            self.packs[number].asked = Asked::Close;
            self.send_to_pack(number, &line);
            self.line = line;
        }
        self.end_template(RowError::new(ErrorKind::Crash, "close", ""));
    }

    /// A pack's process has ended while the shard closes.
    pub(crate) fn pack_closed(&mut self, number: usize) {
        self.discard_process(number);
    }

    /// True once the shard may end: nothing runs any more, or the time is up.
    pub(crate) fn closed(&mut self) -> bool {
        let Some(closing) = &self.closing else {
            return false;
        };
        let running = self.packs.iter().any(|pack| pack.process.is_some());
        if running && system::now_us() < closing.deadline_us {
            return false;
        }
        let sequence = closing.sequence;
        self.end_everything();
        self.worker.reply(sequence, br#"{"ok":true}"#, []);
        true
    }

    /// Kills what is left of every pack and the template, and removes the workspaces.
    pub(crate) fn end_everything(&mut self) {
        self.end_template(RowError::new(ErrorKind::Crash, "close", ""));
        for number in 0..self.packs.len() {
            self.discard_process(number);
        }
        self.end_copies();
        let some_left = self.await_ends();
        for pack in &self.packs {
            // Whatever cannot be ended now ends with this process, which is process 1 of its namespace.
            if some_left {
                let _ = self.isolation.kill_everything(&pack.identity);
            }
            let _ = self.isolation.remove_workspace(&pack.identity);
        }
        self.end_remains();
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
