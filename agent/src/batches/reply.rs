//! The reply of a batch.

use super::batch::{Batch, Message, Work};
use super::columns::{Columns, add_infos, join, write_value};
use super::kept::Kept;
use super::outcomes::Outcomes;
use crate::channel::request::Encoding;
use crate::shard::Shard;
use crate::system;
use crate::values::numbers::write_u64;

impl Shard {
    /// Answers the batch once all of its rows are done; true if it was.
    pub(crate) fn answer_batch(&mut self) -> bool {
        if !self.batch.as_ref().is_some_and(|batch| batch.is_done()) {
            return false;
        }
        let Some(batch) = self.batch.take() else {
            return false;
        };
        if self.creation.is_some() {
            self.finish_creation();
            return true;
        }
        let columns = self.columns_of(&batch);
        let (columns, body) = columns.finish();
        let head = self.head_of(&batch, &columns);
        self.worker.reply(batch.sequence, &head, body.iter().cloned());
        self.kept = Some(Kept { seq: batch.seq, head, body });
        if matches!(batch.message.work, Work::Settle) {
            self.branches.phase = None;
        }
        // The request's body goes back, so that the next one finds its memory.
        self.worker.give_back(batch.message.body);
        true
    }

    fn columns_of(&self, batch: &Batch) -> Columns {
        let Message { encoding, work, rows, .. } = &batch.message;
        if !matches!(work, Work::Call { .. }) {
            return self.result_columns(*encoding, rows, &batch.outcomes);
        }
        let mut columns = Columns::default();
        columns.add("results", *encoding == Encoding::Binary, |out| {
            join(out, rows, |out, local| write_value(out, &self.rows[*local].result, *encoding, b"null"));
        });
        let rows = rows.iter().map(|local| &self.rows[*local]);
        add_infos(&mut columns, *encoding, rows.map(|row| (row, &row.info)));
        columns
    }

    /// The columns of rows that were stepped or reset.
    pub(crate) fn result_columns(&self, encoding: Encoding, rows: &[usize], outcomes: &Outcomes) -> Columns {
        let mut columns = Columns::default();
        let failed = |slot: usize| outcomes.failed[slot];
        self.add_observations(&mut columns, encoding, rows, &failed, outcomes.failures > 0);
        if outcomes.rewards.len() == rows.len() {
            outcomes.add_flags(&mut columns, encoding);
        }
        let rows = if self.has_no_infos(encoding) { &[] } else { rows };
        let rows = rows.iter().map(|local| &self.rows[*local]);
        add_infos(&mut columns, encoding, rows.map(|row| (row, &row.info)));
        columns
    }

    fn head_of(&self, batch: &Batch, columns: &[u8]) -> Vec<u8> {
        let rows = &batch.message.rows;
        let mut head = Vec::with_capacity(256 + columns.len());
        head.extend_from_slice(b"{\"ok\":true,\"seq\":");
        write_u64(&mut head, batch.seq);
        head.extend_from_slice(b",\"rows\":");
        write_u64(&mut head, rows.len() as u64);
        head.push(b',');
        batch.outcomes.write_failures(&mut head, rows.iter().map(|local| self.rows[*local].index));
        head.extend_from_slice(b",\"warnings\":[],\"late_replies\":");
        write_u64(&mut head, self.counters.late_replies - batch.late_before);
        head.extend_from_slice(b",\"timing\":{\"batch_us\":");
        write_u64(&mut head, system::now_us().saturating_sub(batch.began_us));
        head.push(b',');
        batch.outcomes.write_slowest(&mut head);
        head.push(b'}');
        if matches!(batch.message.work, Work::Settle) {
            self.write_reseeded(&mut head);
        }
        head.extend_from_slice(b",\"columns\":[");
        head.extend_from_slice(columns);
        head.extend_from_slice(b"]}");
        head
    }
}
