//! The reply of a batch.

use super::batch::{Batch, Work};
use super::columns::{Columns, add_infos, join, write_value};
use super::kept::Kept;
use crate::channel::request::Encoding;
use crate::shard::Shard;
use crate::system;
use crate::values::numbers::{write_f64, write_u64};

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
        // The request's body goes back, so that the next one finds its memory.
        self.worker.give_back(batch.body);
        true
    }

    fn columns_of(&self, batch: &Batch) -> Columns {
        let mut columns = Columns::default();
        let encoding = batch.encoding;
        let failed = |slot: usize| batch.failed[slot];
        match &batch.work {
            Work::Call { .. } => columns.add("results", encoding == Encoding::Binary, |out| {
                join(out, &batch.rows, |out, local| write_value(out, &self.rows[*local].result, encoding, b"null"));
            }),
            _ => self.add_observations(&mut columns, encoding, &batch.rows, &failed, batch.failures > 0),
        }
        if batch.is_step() {
            add_flags(&mut columns, batch);
        }
        let rows = batch.rows.iter().map(|local| &self.rows[*local]);
        add_infos(&mut columns, encoding, rows.map(|row| (row, &row.info)));
        columns
    }

    fn head_of(&self, batch: &Batch, columns: &[u8]) -> Vec<u8> {
        let mut head = Vec::with_capacity(256 + columns.len());
        head.extend_from_slice(b"{\"ok\":true,\"seq\":");
        write_u64(&mut head, batch.seq);
        head.extend_from_slice(b",\"rows\":");
        write_u64(&mut head, batch.rows.len() as u64);
        head.extend_from_slice(b",\"failed\":[");
        if batch.failures > 0 {
            let slots = batch.rows.iter().zip(&batch.failed).filter(|(_, failed)| **failed);
            join(&mut head, slots, |out, (local, _)| write_u64(out, u64::from(self.rows[*local].index)));
        }
        head.extend_from_slice(b"],\"stragglers\":[");
        join(&mut head, &batch.stragglers, |out, row| write_u64(out, u64::from(*row)));
        head.extend_from_slice(b"],\"warnings\":[],\"late_replies\":");
        write_u64(&mut head, self.counters.late_replies - batch.late_before);
        head.extend_from_slice(b",\"timing\":{\"batch_us\":");
        write_u64(&mut head, system::now_us().saturating_sub(batch.began_us));
        head.extend_from_slice(b",\"slowest_us\":");
        write_u64(&mut head, batch.slowest_us);
        head.extend_from_slice(b",\"slowest_row\":");
        write_u64(&mut head, u64::from(batch.slowest_row));
        head.extend_from_slice(b"},\"columns\":[");
        head.extend_from_slice(columns);
        head.extend_from_slice(b"]}");
        head
    }
}

fn add_flags(columns: &mut Columns, batch: &Batch) {
    if batch.encoding == Encoding::Binary {
        columns.add("rewards", false, |out| {
            out.extend(batch.rewards.iter().flat_map(|reward| reward.to_le_bytes()));
        });
        columns.add("terminated", false, |out| out.extend_from_slice(&batch.terminated));
        columns.add("truncated", false, |out| out.extend_from_slice(&batch.truncated));
        return;
    }
    columns.add("rewards", false, |out| join(out, &batch.rewards, |out, reward| write_f64(out, *reward)));
    columns.add("terminated", false, |out| join(out, &batch.terminated, write_truth));
    columns.add("truncated", false, |out| join(out, &batch.truncated, write_truth));
}

fn write_truth(out: &mut Vec<u8>, flag: &u8) {
    out.extend_from_slice(if *flag == 0 { b"false" } else { b"true" });
}
