//! Processes that are no row's: copies that have not taken their places, and saved states.

use super::phase::Site;
use crate::event_loop::{Source, Token};
use crate::isolation::Identity;
use crate::rows::error::{RowError, STDERR_TAIL_BYTES};
use crate::rows::log::{LOG_BYTES, Log};
use crate::rows::pack::Asked;
use crate::rows::process::Process;
use crate::rows::row::NEVER;
use crate::shard::{Owner, Shard, TURN_BYTES};
use std::os::fd::AsRawFd;

/// What a copy is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has not said hello.
    Starting,
    /// It waits for its place.
    Held,
    /// It is the state of this slot.
    Kept(u32),
}

/// One of them.
pub(super) struct Copied {
    pub(super) identity: Identity,
    pub(super) process: Process,
    pub(super) log: Log,
    /// True when it is asked in the messages of several rows.
    pub(super) packed: bool,
    pub(super) stage: Stage,
    /// What it was asked for as a source.
    pub(super) asked: Asked,
    pub(super) last_id: u64,
    pub(super) deadline_us: u64,
    /// True after the end of its stream, while its exit status is awaited.
    pub(super) ending: bool,
    /// Lines that nobody waited for.
    pub(super) unasked: u32,
}

impl Shard {
    /// Takes a process in that is to be a copy.
    pub(super) fn add_copy(&mut self, identity: Identity, process: Process, packed: bool) -> std::io::Result<u32> {
        self.branches.last_key += 1;
        let key = self.branches.last_key;
        self.poller.add_level(process.stream.reading(), Token::of_pack(Source::Copy, key as usize, 0))?;
        if let Some(stderr) = &process.stderr {
            self.poller.add_level(stderr.as_raw_fd(), Token::of_pack(Source::CopyLog, key as usize, 0))?;
        }
        let deadline_us = crate::system::now_us() + self.settings.deadlines_ms.start * 1000;
        let copied = Copied {
            identity,
            process,
            log: Log::default(),
            packed,
            stage: Stage::Starting,
            asked: Asked::Nothing,
            last_id: 0,
            deadline_us,
            ending: false,
            unasked: 0,
        };
        self.branches.copies.insert(key, copied);
        self.note_deadline(deadline_us);
        Ok(key)
    }

    /// Ends a copy and everything that belongs to it alone.
    pub(super) fn discard_copy(&mut self, key: u32) {
        if let Some(copied) = self.branches.copies.remove(&key) {
            self.release(&copied.process);
            self.bury(copied.identity);
        }
    }

    /// The process that a source is.
    pub(super) fn process_of(&self, site: Site) -> Option<&Process> {
        match site {
            Site::Row(local) => self.packs[self.rows[local].pack].process.as_ref(),
            Site::State(slot) => Some(&self.branches.copies.get(&self.state_key(slot)?)?.process),
        }
    }

    /// The identity of the process that a source is.
    pub(super) fn identity_of(&self, site: Site) -> Option<&Identity> {
        match site {
            Site::Row(local) => Some(&self.packs[self.rows[local].pack].identity),
            Site::State(slot) => Some(&self.branches.copies.get(&self.state_key(slot)?)?.identity),
        }
    }

    /// Notes that a source was sent a request of that kind; gives its number, and it has until the deadline.
    pub(super) fn next_request(&mut self, site: Site, asked: Asked) -> Option<u64> {
        let now_us = crate::system::now_us();
        let deadline_us = now_us + self.settings.deadlines_ms.start * 1000;
        self.note_deadline(deadline_us);
        match site {
            Site::Row(local) => {
                let pack = &mut self.packs[self.rows[local].pack];
                pack.life = crate::rows::pack::Life::Branching;
                pack.asked = asked;
                pack.late = 0;
                pack.sent_us = now_us;
                pack.deadline_us = deadline_us;
                pack.last_id += 1;
                Some(pack.last_id)
            }
            Site::State(slot) => {
                let key = self.state_key(slot)?;
                let copied = self.branches.copies.get_mut(&key)?;
                copied.asked = asked;
                copied.deadline_us = deadline_us;
                copied.last_id += 1;
                Some(copied.last_id)
            }
        }
    }

    /// A source has answered all that it was asked for.
    pub(super) fn all_answered(&mut self, site: Site) {
        match site {
            Site::Row(local) => {
                let pack = &mut self.packs[self.rows[local].pack];
                pack.life = crate::rows::pack::Life::Ready;
                pack.asked = Asked::Nothing;
                pack.deadline_us = NEVER;
            }
            Site::State(slot) => {
                let key = self.state_key(slot);
                if let Some(copied) = key.and_then(|key| self.branches.copies.get_mut(&key)) {
                    copied.asked = Asked::Nothing;
                    copied.deadline_us = NEVER;
                }
            }
        }
    }

    /// The pid of a copy, from its source or from itself; both have to say the same.
    pub(super) fn learn_copys_pid(&mut self, key: u32, pid: i32) -> bool {
        let known_elsewhere = self.owners.contains_key(&pid);
        let Some(copied) = self.branches.copies.get_mut(&key) else {
            return true;
        };
        match copied.process.pid {
            None if pid > 1 && !known_elsewhere => {
                copied.process.pid = Some(pid);
                let started_us = copied.process.started_us;
                self.isolation.adopt(&copied.identity, pid);
                self.own(pid, Owner::Copy(key), started_us);
                true
            }
            known => known == Some(pid),
        }
    }

    /// A copy's standard error has something.
    pub(crate) fn read_copy_log(&mut self, key: u32) {
        let Some(copied) = self.branches.copies.get_mut(&key) else {
            return;
        };
        if !copied.process.read_stderr(&mut copied.log, &mut self.scratch, TURN_BYTES)
            && let Some(stderr) = copied.process.stderr.take()
        {
            self.poller.remove(stderr.as_raw_fd());
        }
    }

    /// Adds exit status and standard error to a copy's error.
    pub(super) fn with_copys_evidence(&mut self, key: u32, mut error: RowError) -> RowError {
        if let Some(copied) = self.branches.copies.get_mut(&key) {
            copied.process.read_stderr(&mut copied.log, &mut self.scratch, LOG_BYTES);
            error.exit = error.exit.or(copied.process.exit);
            error.stderr_tail = copied.log.tail_text(STDERR_TAIL_BYTES);
        }
        error
    }
}
