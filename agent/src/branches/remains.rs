//! What is left of processes whose places others took: killed, and looked after until nothing is there.

use crate::isolation::Identity;
use crate::shard::Shard;
use crate::system;
use std::collections::VecDeque;
use std::io;

const FIRST_LOOK_US: u64 = 1000;
const LAST_LOOK_US: u64 = 50_000;
/// A process that does not end, such as one in uninterruptible sleep, keeps nobody waiting for longer.
const ANSWER_US: u64 = 2_000_000;

/// Identities whose processes were killed.
#[derive(Default)]
pub(crate) struct Remains {
    left: VecDeque<Identity>,
    due_us: u64,
    pause_us: u64,
    waiting: Vec<Waiting>,
}

/// A request that is answered once nothing is left of what was killed until it came.
struct Waiting {
    sequence: u32,
    uids: Vec<u32>,
    until_us: u64,
}

impl Remains {
    /// When to look again.
    pub(super) fn due_us(&self) -> u64 {
        if self.left.is_empty() { crate::rows::row::NEVER } else { self.due_us }
    }
}

impl Shard {
    /// Kills everything of an identity that nobody has any more, without waiting.
    pub(super) fn bury(&mut self, identity: Identity) {
        let _ = self.isolation.signal_everything(&identity);
        let remains = &mut self.branches.remains;
        remains.left.push_back(identity);
        remains.pause_us = FIRST_LOOK_US;
        remains.due_us = system::now_us() + FIRST_LOOK_US;
        let due_us = remains.due_us;
        self.note_deadline(due_us);
    }

    /// Answers a request with `ok` once nothing is left of all that was killed until now.
    pub(super) fn answer_without_remains(&mut self, sequence: u32) {
        let remains = &mut self.branches.remains;
        let uids = remains.left.iter().map(|identity| identity.uid).collect();
        let until_us = system::now_us() + ANSWER_US;
        remains.waiting.push(Waiting { sequence, uids, until_us });
        self.note_deadline(until_us);
        self.answer_waiting();
    }

    fn answer_waiting(&mut self) {
        let Remains { left, waiting, .. } = &mut self.branches.remains;
        if waiting.is_empty() {
            return;
        }
        let now_us = system::now_us();
        for one in waiting.extract_if(.., |one| {
            one.uids.retain(|uid| left.iter().any(|identity| identity.uid == *uid));
            one.uids.is_empty() || now_us >= one.until_us
        }) {
            self.worker.reply(one.sequence, br#"{"ok":true}"#, []);
        }
    }

    /// Processes have ended: if somebody waits for that, it is time to look.
    pub(crate) fn hurry_cleaning(&mut self) {
        let remains = &mut self.branches.remains;
        if !remains.waiting.is_empty() && !remains.left.is_empty() {
            (remains.due_us, remains.pause_us) = (system::now_us(), FIRST_LOOK_US);
            let due_us = remains.due_us;
            self.note_deadline(due_us);
        }
    }

    /// Looks after one of the remains, when there is time for it or somebody waits for it.
    pub(crate) fn clean_remains(&mut self, spare_time: bool) {
        self.look_after_one(spare_time || !self.branches.remains.waiting.is_empty());
        self.answer_waiting();
    }

    fn look_after_one(&mut self, spare_time: bool) {
        let remains = &mut self.branches.remains;
        if !spare_time || remains.left.is_empty() || system::now_us() < remains.due_us {
            return;
        }
        let Some(identity) = remains.left.pop_front() else {
            return;
        };
        // A kernel that does not tell by uid is asked thoroughly, and seldom.
        let thorough = remains.pause_us == LAST_LOOK_US;
        if !self.isolation.is_gone(&identity, thorough) {
            let _ = self.isolation.signal_everything(&identity);
            let remains = &mut self.branches.remains;
            remains.left.push_back(identity);
            remains.pause_us = (remains.pause_us * 2).min(LAST_LOOK_US);
            remains.due_us = system::now_us() + remains.pause_us;
        } else {
            // One that cannot be removed now is told by whoever takes the identity next.
            let _ = self.isolation.remove_workspace(&identity);
        }
        let due_us = self.branches.remains.due_us();
        self.note_deadline(due_us);
    }

    /// Makes sure that nothing of an identity is left before it is given away again.
    pub(super) fn clear_remains(&mut self, identity: &Identity) -> io::Result<()> {
        let left = &mut self.branches.remains.left;
        let before = left.len();
        left.retain(|known| known.uid != identity.uid);
        if before == left.len() && !self.settings.isolated {
            return Ok(());
        }
        let report = self.isolation.kill_everything(identity)?;
        if report.complete() {
            return Ok(());
        }
        self.branches.remains.left.push_back(identity.clone());
        Err(io::Error::other(format!("processes {:?} of an ended environment do not end", report.remaining)))
    }

    /// Ends every copy and state, whatever becomes of the phase.
    pub(crate) fn end_copies(&mut self) {
        self.branches.phase = None;
        self.branches.states.clear();
        self.branches.lost.clear();
        let keys: Vec<u32> = self.branches.copies.keys().copied().collect();
        for key in keys {
            self.discard_copy(key);
        }
    }

    /// Kills what is left of ended copies and removes their workspaces.
    pub(crate) fn end_remains(&mut self) {
        for identity in std::mem::take(&mut self.branches.remains.left) {
            let _ = self.isolation.kill_everything(&identity);
            let _ = self.isolation.remove_workspace(&identity);
        }
    }
}
