//! The answer to a call of several rows.

use super::answer::needed;
use super::errors::has_failed;
use crate::rows::error::ErrorKind;
use crate::rows::pack::Asked;
use crate::shard::{Shard, keep};
use crate::values::fault::Fault;
use crate::values::packed::{self, PackedReply};

impl Shard {
    /// Takes the answer to a call of these rows. A row whose call raised goes on.
    pub(crate) fn packed_calls(
        &mut self,
        number: usize,
        rows: &[usize],
        reply: &PackedReply<'_>,
        raw: &[u8],
    ) -> Result<(), Fault> {
        let failures = self.failures_in(number, Asked::Call, rows, reply)?;
        let results = needed(reply.results, "results", "a call")?;
        for (place, at) in packed::list(results.text, rows.len(), "results")?.into_iter().enumerate() {
            if has_failed(&failures, place) {
                continue;
            }
            keep(&mut self.rows[rows[place]].result, &packed::item(&results.text[at])?, raw)?;
            self.check_size(self.rows[rows[place]].result.text.len(), "a result")?;
        }
        self.finish_rows(number, rows, &|place| !has_failed(&failures, place));
        let (raised, failed): (Vec<_>, Vec<_>) = failures
            .into_iter()
            .map(|(place, error)| (rows[place], error))
            .partition(|(_, error)| error.kind == ErrorKind::Exception);
        for (local, error) in raised {
            self.finish_failed_call(local, &error);
        }
        self.fail_rows(number, failed);
        Ok(())
    }
}
