//! The second phase: what is held takes its place, or is given up.

use super::phase::{Site, Way};
use crate::batches::batch::{Batch, Message, Work};
use crate::channel::error::RequestError;
use crate::channel::request::{BranchKind, Settle};
use crate::rows::row::Task;
use crate::shard::{Shard, parse};
use std::rc::Rc;

impl Shard {
    /// Lets the held copies take their places.
    pub(crate) fn settle(&mut self, sequence: u32, head: &[u8]) -> Result<(), RequestError> {
        let request: Settle = parse(head)?;
        if self.repeat_or_expect(sequence, request.seq)? {
            return Ok(());
        }
        self.end_silent_copies();
        let Some(phase) = &self.branches.phase else {
            return Err(
                RequestError::new("conflict", "received settle, but nothing is held").with_hint("send branch first")
            );
        };
        if phase.is_open() {
            return Err(RequestError::new("pool_busy", "received settle before branch was answered")
                .with_hint("wait for its reply"));
        }
        if phase.kind == BranchKind::Save {
            self.settle_states(sequence, request.seq);
            return Ok(());
        }
        let rows = phase.pairs.iter().filter_map(|pair| match pair.target {
            Site::Row(local) => Some(local),
            Site::State(_) => None,
        });
        let rows = rows.collect();
        let message = Message { encoding: request.encoding, work: Work::Settle, rows, body: Vec::new() };
        self.run_batch(Box::new(Batch::new(sequence, request.seq, message)));
        Ok(())
    }

    /// Gives up what is held, or is to be.
    pub(crate) fn unsettle(&mut self, sequence: u32) -> Result<(), RequestError> {
        if self.batch.is_some() {
            return Err(
                RequestError::new("pool_busy", "received unsettle while a batch runs").with_hint("wait for its reply")
            );
        }
        if let Some(phase) = self.branches.phase.as_mut().filter(|phase| phase.is_open()) {
            // What sources were asked for comes in any case, and is ended then.
            if phase.unsettled.replace(sequence).is_some() {
                return Err(RequestError::new("pool_busy", "received a second unsettle before the first was answered"));
            }
            return Ok(());
        }
        self.release_phase();
        self.worker.reply(sequence, br#"{"ok":true}"#, []);
        Ok(())
    }

    /// One row of a settle; rows and pairs are in the same order.
    pub(crate) fn settle_row(&mut self, local: usize, slot: usize) {
        let Some(phase) = &mut self.branches.phase else {
            return;
        };
        let pair = &mut phase.pairs[slot];
        let origin = &phase.origins[pair.origin];
        let Some(snapshot) = origin.snapshot.as_ref().map(Rc::clone) else {
            return;
        };
        self.rows[local].task = Task::Restore;
        if origin.way == Way::State {
            return self.restore_row(local);
        }
        let (key, died, reseeded) = (pair.copy.take(), pair.died.take(), pair.reseed.is_some());
        let number = self.rows[local].pack;
        if let Some(copied) = key.and_then(|key| self.branches.copies.remove(&key)) {
            self.take_place(number, copied);
            self.apply_snapshot(local, &snapshot, reseeded);
            return self.finish_row(local);
        }
        self.replace(number);
        if let Some(error) = died {
            self.become_failed(local, error);
        }
    }

    /// Adds what was reseeded to the head of a reply.
    pub(crate) fn write_reseeded(&self, head: &mut Vec<u8>) {
        let pairs = self.branches.phase.iter().flat_map(|phase| &phase.pairs);
        let reseeded: Vec<_> = pairs.map(|pair| &pair.reseeded).collect();
        head.extend_from_slice(b",\"reseeded\":");
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut *head, &reseeded);
    }
}
