//! Rows of a process that fail alone: the process and its other rows go on.

use super::answer::place_of;
use crate::rows::error::{ErrorKind, ReportedError, RowError};
use crate::rows::pack::Asked;
use crate::shard::Shard;
use crate::values::fault::Fault;
use crate::values::packed::{self, PackedReply};
use crate::values::reply::Member;

/// Places in a message whose rows failed, ascending, each with its error.
pub(crate) type Failures = Vec<(usize, RowError)>;

/// True when the row at that place failed.
#[inline]
pub(crate) fn has_failed(failures: &Failures, place: usize) -> bool {
    !failures.is_empty() && failures.binary_search_by_key(&place, |(failed, _)| *failed).is_ok()
}

impl Shard {
    /// The rows that an answer says have failed.
    pub(crate) fn failures_in(
        &mut self,
        number: usize,
        asked: Asked,
        rows: &[usize],
        reply: &PackedReply<'_>,
    ) -> Result<Failures, Fault> {
        self.failures_of(number, asked, rows, reply.errors)
    }

    /// The same, of the member `errors`.
    pub(crate) fn failures_of(
        &self,
        number: usize,
        asked: Asked,
        rows: &[usize],
        errors: Option<Member<'_>>,
    ) -> Result<Failures, Fault> {
        let Some(member) = errors else {
            return Ok(Vec::new());
        };
        let first = self.packs[number].rows.start;
        let mut failures = Vec::new();
        let mut fault = None;
        packed::by_row(member.text, "errors", |row, (place, _)| match place_of(rows, first, row, "errors") {
            Ok(position) => failures.push((position, ReportedError::parse(&member.text[place]))),
            Err(found) => fault = Some(found),
        })?;
        if let Some(fault) = fault {
            return Err(fault);
        }
        failures.sort_by_key(|(position, _)| *position);
        failures.dedup_by_key(|(position, _)| *position);
        Ok(failures.into_iter().map(|(position, error)| (position, self.row_error(number, asked, error))).collect())
    }

    /// What a process says of a row that failed, as the row's error.
    pub(crate) fn row_error(&self, number: usize, asked: Asked, reported: ReportedError) -> RowError {
        let timed_out = reported.kind.as_deref() == Some("timeout");
        let mut error = reported.into_error(asked.op());
        if timed_out {
            let pack = &self.packs[number];
            error.kind = ErrorKind::Timeout;
            error.deadline_s = Some(pack.deadline_ms as f64 / 1000.0);
        }
        error
    }

    /// These rows have failed; the next reset of each makes a new environment object in the same process.
    pub(crate) fn fail_rows(&mut self, number: usize, failures: Vec<(usize, RowError)>) {
        for (local, error) in failures {
            let (error, _) = self.with_evidence(number, error);
            if self.creation.is_some() {
                return self.fail_creation(local, &error);
            }
            if error.kind == ErrorKind::Timeout {
                self.counters.stragglers += 1;
            }
            let row = &mut self.rows[local];
            row.fresh = true;
            row.ended = false;
            self.become_failed(local, error);
        }
    }
}
