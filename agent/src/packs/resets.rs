//! The answer to a reset of several rows.

use super::answer::needed;
use super::errors::has_failed;
use crate::rows::pack::Asked;
use crate::shard::Shard;
use crate::values::fault::Fault;
use crate::values::packed::PackedReply;

impl Shard {
    /// Takes the answer to a reset of these rows.
    pub(crate) fn packed_resets(
        &mut self,
        number: usize,
        rows: &[usize],
        reply: &PackedReply<'_>,
        raw: &[u8],
    ) -> Result<(), Fault> {
        let mut failures = self.failures_in(number, Asked::Reset, rows, reply)?;
        let observations = needed(reply.obs, "obs", "a reset")?;
        self.keep_infos(number, rows, reply.infos, raw)?;
        self.keep_observations(rows, &observations, raw, &mut failures, "reset")?;
        for (place, local) in rows.iter().enumerate() {
            if !has_failed(&failures, place) {
                self.begin_episode(*local);
            }
        }
        self.finish_rows(number, rows, &|place| !has_failed(&failures, place));
        self.fail_rows(number, failures.into_iter().map(|(place, error)| (rows[place], error)).collect());
        Ok(())
    }
}
