//! A held copy takes the place of a row's process.

use super::copies::Copied;
use crate::event_loop::{Source, Token};
use crate::rows::log::LOG_BYTES;
use crate::rows::pack::{Asked, Life};
use crate::rows::row::NEVER;
use crate::shard::{Owner, Shard};
use std::os::fd::AsRawFd;

impl Shard {
    /// Ends the row's process with all that belongs to it; the copy is its process from here on.
    pub(super) fn take_place(&mut self, number: usize, mut copied: Copied) {
        self.discard_process(number);
        self.starts.dirty.retain(|waiting| *waiting != number);
        self.starts.clean.retain(|waiting| *waiting != number);
        let oom_kills_before = self.isolation.oom_kills(&copied.identity);
        let pack = &mut self.packs[number];
        let old = std::mem::replace(&mut pack.identity, copied.identity);
        pack.life = Life::Ready;
        pack.asked = Asked::Nothing;
        pack.packed = copied.packed.then(Box::default);
        pack.last_id = 0;
        pack.late = 0;
        pack.failed_starts = 0;
        pack.deadline_us = NEVER;
        pack.ending = copied.ending;
        pack.log.mark_replaced();
        copied.process.read_stderr(&mut copied.log, &mut self.scratch, LOG_BYTES);
        pack.log.push(copied.log.tail());
        copied.process.oom_kills_before = oom_kills_before;
        let token = |source| Token::of_pack(source, number, pack.epoch);
        let _ = self.poller.change_edge(copied.process.stream.reading(), token(Source::Pack), false);
        if let Some(stderr) = &copied.process.stderr {
            let _ = self.poller.change_level(stderr.as_raw_fd(), token(Source::PackLog), false);
        }
        if let Some(pid) = copied.process.pid {
            self.owners.insert(pid, Owner::Pack(number));
        }
        pack.process = Some(copied.process);
        self.bury(old);
    }
}
