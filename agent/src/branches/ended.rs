//! Copies, states and sources that end while nobody wants them to.

use super::copies::Stage;
use super::phase::Site;
use crate::isolation::Exit;
use crate::rows::error::{ErrorKind, RowError};
use crate::rows::row::NEVER;
use crate::shard::Shard;
use serde_json::json;
use std::ops::Range;

const STDERR_SHOWN_BYTES: usize = 1024;

impl Shard {
    /// A copy's process has ended.
    pub(crate) fn copy_exited(&mut self, key: u32, exit: Exit) {
        if let Some(copied) = self.branches.copies.get_mut(&key) {
            copied.process.exit = Some(exit);
            self.copy_ended(key);
        }
    }

    /// A copy's process ended, or closed its stream and is as good as ended.
    fn copy_ended(&mut self, key: u32) {
        let Some(copied) = self.branches.copies.get(&key) else {
            return;
        };
        let process = &copied.process;
        let killed = process.exit.as_ref().is_none_or(Self::killed);
        let kills = self.isolation.oom_kills(&copied.identity);
        let out_of_memory = killed && kills > process.oom_kills_before;
        let kind = if out_of_memory { ErrorKind::Oom } else { ErrorKind::Crash };
        let mut message = match &process.exit {
            Some(exit) => format!("the environment {}", Self::ending(exit)),
            None => "the environment closed its channel".to_owned(),
        };
        if out_of_memory {
            message.push_str("; the kernel ended it at the memory limit of its group");
            self.note_state_kills(kills);
        }
        self.copy_over(key, RowError::new(kind, "idle", message));
    }

    /// Held copies that closed their streams are as good as ended: their places are not taken by them.
    pub(super) fn end_silent_copies(&mut self) {
        let silent = self.branches.copies.iter().filter(|(_, copied)| copied.ending && copied.stage == Stage::Held);
        for key in silent.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.copy_ended(key);
        }
    }

    /// All states have one memory group: a kill that was told counts for no other one.
    fn note_state_kills(&mut self, kills: u64) {
        for copied in self.branches.copies.values_mut() {
            if matches!(copied.stage, Stage::Kept(_)) {
                copied.process.oom_kills_before = kills;
            }
        }
    }

    /// Whatever waited for a copy, or kept it as a state, is told its error.
    pub(super) fn copy_over(&mut self, key: u32, error: RowError) {
        let error = self.with_copys_evidence(key, error);
        match self.branches.copies.get(&key).map(|copied| copied.stage) {
            Some(Stage::Starting) => {
                let stderr = error.stderr_tail.trim();
                let tail = &stderr[stderr.ceil_char_boundary(stderr.len().saturating_sub(STDERR_SHOWN_BYTES))..];
                self.copy_failed(key, &format!("{} before its hello: {tail}", error.message));
            }
            Some(Stage::Held) => {
                if let Some(phase) = &mut self.branches.phase
                    && let Some(number) = phase.pair_with(key)
                {
                    phase.pairs[number].copy = None;
                    phase.pairs[number].died = Some(error);
                }
                self.discard_copy(key);
            }
            Some(Stage::Kept(slot)) => {
                self.discard_copy(key);
                self.lose_state(slot, &error);
            }
            None => {}
        }
    }

    /// A copy did not come to be.
    pub(super) fn copy_failed(&mut self, key: u32, why: &str) {
        let Some(number) = self.branches.phase.as_ref().and_then(|phase| phase.pair_with(key)) else {
            return self.discard_copy(key);
        };
        self.drop_copy_of(number);
        if let Some(phase) = &mut self.branches.phase {
            let origin = phase.pairs[number].origin;
            phase.origins[origin].block(json!({"reason": why}));
        }
    }

    /// Ends the copy of a pair, if there is one.
    pub(super) fn drop_copy_of(&mut self, number: usize) {
        let Some(phase) = &mut self.branches.phase else {
            return;
        };
        let pair = &mut phase.pairs[number];
        pair.held = false;
        let target = pair.target;
        if let Some(key) = pair.copy.take() {
            self.lend_back(key, target);
            self.discard_copy(key);
        }
    }

    /// The process of these rows has ended while it was asked for a copy.
    pub(crate) fn sources_ended(&mut self, rows: &Range<usize>) {
        for local in rows.clone() {
            self.source_ended(Site::Row(local));
        }
    }

    /// A source has ended; what it did not answer will never come.
    pub(super) fn source_ended(&mut self, site: Site) {
        let Some(phase) = self.branches.phase.as_mut().filter(|phase| phase.is_open()) else {
            return;
        };
        if let Some(number) = phase.origin_at(site) {
            let origin = &mut phase.origins[number];
            origin.ended = true;
            origin.unsent.clear();
            origin.unanswered = 0;
        }
    }

    /// Copies that did not say hello in time, and states that did not answer.
    pub(crate) fn expire_copies(&mut self, now_us: u64) {
        let mut due = Vec::new();
        for (key, copied) in &self.branches.copies {
            if copied.deadline_us <= now_us {
                due.push(*key);
            } else if copied.deadline_us != NEVER {
                self.earliest_us = self.earliest_us.min(copied.deadline_us);
            }
        }
        for key in due {
            self.copy_due(key);
        }
        self.note_deadline(self.branches.remains.due_us());
    }

    fn copy_due(&mut self, key: u32) {
        let seconds = self.settings.deadlines_ms.start as f64 / 1000.0;
        let Some(copied) = self.branches.copies.get(&key) else {
            return;
        };
        if copied.ending {
            return self.copy_ended(key);
        }
        let op = copied.asked.op();
        let mut error = match copied.stage {
            Stage::Starting => {
                RowError::new(ErrorKind::Timeout, "fork", format!("the copy did not say hello within {seconds} s"))
            }
            _ => RowError::new(ErrorKind::Timeout, op, format!("no answer to {op} within {seconds} s")),
        };
        error.deadline_s = Some(seconds);
        self.copy_over(key, error);
    }
}
