//! Tells the results of one turn of the loop, in one event.

use super::Stream;
use crate::batches::columns::join;
use crate::batches::outcomes::Outcomes;
use crate::channel::request::Encoding;
use crate::shard::Shard;
use crate::values::numbers::write_u64;

impl Shard {
    /// Tells the rows that finished since it was called last; true if there were any.
    pub(crate) fn tell_results(&mut self) -> bool {
        if self.stream.finished.is_empty() {
            return false;
        }
        let mut rows = std::mem::take(&mut self.stream.finished);
        rows.sort_unstable();
        for encoding in [Encoding::Binary, Encoding::Json] {
            let wanted = |local: &usize| self.stream.is_binary(*local) == (encoding == Encoding::Binary);
            let rows: Vec<usize> = rows.iter().copied().filter(wanted).collect();
            if !rows.is_empty() {
                self.tell(encoding, &rows);
            }
        }
        for local in &rows {
            self.stream.out[*local] = None;
        }
        self.stream.count -= rows.len();
        rows.clear();
        self.stream.finished = rows;
        true
    }

    fn tell(&mut self, encoding: Encoding, rows: &[usize]) {
        let outcomes = self.outcomes_of(rows);
        let (columns, body) = self.result_columns(encoding, rows, &outcomes).finish();
        let indices = || rows.iter().map(|local| self.rows[*local].index);
        let mut head = Vec::with_capacity(256 + columns.len() + 16 * rows.len());
        head.extend_from_slice(b"{\"event\":\"results\",\"encoding\":");
        head.extend_from_slice(if encoding == Encoding::Json { b"\"json\"" } else { b"\"binary\"" });
        head.extend_from_slice(b",\"rows\":[");
        join(&mut head, indices(), |out, index| write_u64(out, u64::from(index)));
        head.extend_from_slice(b"],\"ops\":[");
        join(&mut head, rows, |out, local| out.extend_from_slice(self.stream.op(*local)));
        head.extend_from_slice(b"],");
        outcomes.write_failures(&mut head, indices());
        head.extend_from_slice(b",\"late_replies\":");
        write_u64(&mut head, self.counters.late_replies - self.stream.late_told);
        head.extend_from_slice(b",\"timing\":{");
        outcomes.write_slowest(&mut head);
        head.extend_from_slice(b"},\"columns\":[");
        head.extend_from_slice(&columns);
        head.extend_from_slice(b"]}");
        self.stream.late_told = self.counters.late_replies;
        self.worker.event_with_body(&head, body);
    }

    fn outcomes_of(&self, rows: &[usize]) -> Outcomes {
        let mut outcomes = Outcomes::new(rows.len(), true);
        for (slot, local) in rows.iter().enumerate() {
            let (Some(out), index) = (self.stream.of(*local), self.rows[*local].index) else {
                continue;
            };
            outcomes.rewards[slot] = out.reward;
            outcomes.terminated[slot] = u8::from(out.terminated);
            outcomes.truncated[slot] = u8::from(out.truncated);
            outcomes.failed[slot] = out.failed;
            outcomes.failures += usize::from(out.failed);
            outcomes.note_time(index, out.took_us);
            if out.straggler {
                outcomes.stragglers.push(index);
            }
        }
        outcomes
    }
}

impl Stream {
    fn is_binary(&self, local: usize) -> bool {
        self.of(local).is_some_and(|out| out.binary)
    }

    fn op(&self, local: usize) -> &'static [u8] {
        if self.of(local).is_some_and(|out| out.is_step) { b"\"step\"" } else { b"\"reset\"" }
    }
}
