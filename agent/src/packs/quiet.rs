//! Processes whose rows only say numbers: a step of the whole pool then touches no single row, only columns.
//!
//! A process is quiet after a step of all rows of the shard that left nothing behind in them: no error, no info, no
//! pending reset. The next such step need not prepare its rows, ask them one by one or finish them. Anything else the
//! shard does has another number, or none, and finds the rows as every step leaves them.

use super::answer::needed;
use super::steps::Outcomes;
use crate::batches::batch::Batch;
use crate::channel::request::Encoding;
use crate::rows::pack::{Asked, Life};
use crate::rows::row::Task;
use crate::shard::Shard;
use crate::values::fault::Fault;
use crate::values::packed::PackedReply;
use std::ops::Range;

impl Shard {
    /// True when the batch steps every row, so that each one's slot is its number.
    pub(crate) fn steps_all(&self, batch: &Batch) -> bool {
        batch.message.is_step() && batch.message.rows.len() == self.rows.len()
    }

    /// True when the batch before this one left the process quiet; asked of a batch that steps every row.
    pub(crate) fn is_quiet(&self, number: usize) -> bool {
        let pack = &self.packs[number];
        let quiet_seq = pack.packed.as_ref().and_then(|packed| packed.quiet_seq);
        pack.life == Life::Ready && quiet_seq.is_some_and(|seq| seq + 1 == self.last_seq)
    }

    /// Asks a quiet process for a step of all its rows, and leaves those alone. False: they have to be asked one by one.
    pub(crate) fn ask_quietly(&mut self, number: usize, slots: &Range<usize>) -> bool {
        let wanted = self.batch.as_ref().is_some_and(|batch| self.steps_all(batch));
        let pack = &mut self.packs[number];
        let rows = pack.rows.clone();
        if !wanted || pack.asked != Asked::Nothing || *slots != rows || !self.is_quiet(number) {
            return false;
        }
        let Some(packed) = &mut self.packs[number].packed else {
            return false;
        };
        packed.asleep = true;
        // The rows of the message before this one are mostly still there.
        if packed.asked.len() != rows.len() {
            packed.asked = rows.collect();
        }
        self.ask_steps(number);
        true
    }

    /// Takes an answer to rows that were left alone, if it lets them be left alone again. False, and they are as any
    /// others: it has to be taken row by row.
    pub(crate) fn take_quietly(
        &mut self,
        number: usize,
        rows: &[usize],
        reply: &PackedReply<'_>,
        raw: &[u8],
        outcomes: &mut Outcomes,
    ) -> Result<bool, Fault> {
        let asleep = self.packs[number].packed.as_ref().is_some_and(|packed| packed.asleep);
        if !asleep || !says_nothing(reply) {
            self.rouse(number);
            return Ok(false);
        }
        let failures = Vec::new();
        outcomes.take(rows.len(), &failures, reply, raw)?;
        let observations = needed(reply.obs, "obs", "a step")?;
        let stacked = observations.text.first() == Some(&b'{') && !self.columns.is_empty();
        if !stacked || !outcomes.are_finite() || (self.vector.is_none() && outcomes.any_ended()) {
            self.rouse(number);
            return Ok(false);
        }
        self.keep_stacked(rows, &observations, raw, &failures)?;
        self.note_steps(rows, outcomes);
        self.count_steps(number, rows);
        if let Some(packed) = &mut self.packs[number].packed {
            packed.asleep = false;
        }
        if self.vector.is_some() {
            self.note_some_autoresets(number, rows, outcomes);
        }
        self.finish_quiet_rows(number, rows);
        self.stay_quiet(number);
        Ok(true)
    }

    /// Rows that were left alone wait for their step as any others do.
    pub(crate) fn rouse(&mut self, number: usize) {
        let pack = &mut self.packs[number];
        let asleep = pack.packed.as_mut().is_some_and(|packed| std::mem::take(&mut packed.asleep));
        if asleep {
            for row in &mut self.rows[pack.rows.clone()] {
                row.task = Task::Step;
            }
        }
    }

    /// A process that was asked row by row may be left alone in the next batch, if this answer left nothing behind.
    pub(crate) fn become_quiet(&mut self, number: usize, reply: &PackedReply<'_>, outcomes: &Outcomes) {
        let whole = self.batch.as_ref().is_some_and(|batch| self.steps_all(batch));
        let resets = self.vector.is_none() && outcomes.any_ended();
        if !whole || !says_nothing(reply) || !outcomes.are_finite() || resets || self.columns.is_empty() {
            return;
        }
        let pack = &mut self.packs[number];
        let ended = pack.rows.clone().filter(|local| self.rows[*local].ended).collect();
        if let Some(packed) = &mut pack.packed {
            packed.ended = ended;
        }
        self.stay_quiet(number);
    }

    /// Nothing is known of the rows any more, as they are asked in other ways than batches.
    pub(crate) fn forget_quiet(&mut self) {
        for packed in self.packs.iter_mut().filter_map(|pack| pack.packed.as_mut()) {
            packed.quiet_seq = None;
        }
    }

    /// True when no row has an info, so that none has to be looked for.
    pub(crate) fn has_no_infos(&self, encoding: Encoding) -> bool {
        let quiet_seq = Some(self.last_seq);
        let quiet =
            self.packs.iter().all(|pack| pack.packed.as_ref().is_some_and(|packed| packed.quiet_seq == quiet_seq));
        encoding == Encoding::Binary && quiet
    }

    fn stay_quiet(&mut self, number: usize) {
        if let Some(packed) = &mut self.packs[number].packed {
            packed.quiet_seq = Some(self.last_seq);
        }
    }

    /// The end of an episode concerns the rows that had theirs now or in the step before.
    fn note_some_autoresets(&mut self, number: usize, rows: &[usize], outcomes: &Outcomes) {
        let Some(packed) = &mut self.packs[number].packed else {
            return;
        };
        let mut ended = std::mem::take(&mut packed.ended);
        let first = rows[0];
        let before = ended.iter().map(|local| local - first).filter(|place| !outcomes.ended(*place));
        let places: Vec<usize> = before.chain((0..rows.len()).filter(|place| outcomes.ended(*place))).collect();
        self.note_own_autoresets(rows, outcomes, places.iter().copied());
        ended.clear();
        ended.extend(places.into_iter().map(|place| rows[place]).filter(|local| self.rows[*local].ended));
        if let Some(packed) = &mut self.packs[number].packed {
            packed.ended = ended;
        }
    }
}

/// True for an answer without errors and infos.
fn says_nothing(reply: &PackedReply<'_>) -> bool {
    reply.errors.is_none() && reply.infos.is_none_or(|infos| infos.text == b"{}")
}
