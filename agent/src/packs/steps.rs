//! The answer to a step of several rows.

use super::answer::needed;
use super::errors::{Failures, has_failed};
use super::observations::unstack;
use crate::channel::request::Autoreset;
use crate::rows::pack::Asked;
use crate::rows::row::Purpose;
use crate::shard::{Shard, add_member};
use crate::values::fault::Fault;
use crate::values::packed::{self, PackedReply};

/// Rewards and flags of an answer.
#[derive(Default)]
pub(crate) struct Outcomes {
    pub(crate) rewards: Vec<f64>,
    pub(crate) terminated: Vec<u8>,
    pub(crate) truncated: Vec<u8>,
}

impl Outcomes {
    pub(super) fn take(
        &mut self,
        count: usize,
        failures: &Failures,
        reply: &PackedReply<'_>,
        raw: &[u8],
    ) -> Result<(), Fault> {
        let skip = |place: usize| has_failed(failures, place);
        let reward = needed(reply.reward, "reward", "a step")?;
        packed::rewards(&reward, raw, count, &skip, &mut self.rewards)?;
        let terminated = needed(reply.terminated, "terminated", "a step")?;
        packed::flags(&terminated, raw, count, "terminated", &skip, &mut self.terminated)?;
        match reply.truncated {
            Some(member) => packed::flags(&member, raw, count, "truncated", &skip, &mut self.truncated),
            None => {
                self.truncated.clear();
                self.truncated.resize(count, 0);
                Ok(())
            }
        }
    }

    /// True where the episode ended.
    #[inline]
    pub(super) fn ended(&self, place: usize) -> bool {
        self.terminated[place] | self.truncated[place] != 0
    }

    pub(super) fn any_ended(&self) -> bool {
        self.terminated.iter().chain(&self.truncated).any(|flag| *flag != 0)
    }

    pub(super) fn are_finite(&self) -> bool {
        self.rewards.iter().all(|reward| reward.is_finite())
    }
}

impl Shard {
    /// Takes the answer to a step of these rows.
    pub(crate) fn packed_steps(
        &mut self,
        number: usize,
        rows: &[usize],
        reply: &PackedReply<'_>,
        raw: &[u8],
    ) -> Result<(), Fault> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let taken = self.take_quietly(number, rows, reply, raw, &mut outcomes);
        let taken = taken.and_then(|quiet| match quiet {
            true => Ok(()),
            false => self.take_loudly(number, rows, reply, raw, &mut outcomes),
        });
        self.outcomes = outcomes;
        taken
    }

    fn take_loudly(
        &mut self,
        number: usize,
        rows: &[usize],
        reply: &PackedReply<'_>,
        raw: &[u8],
        outcomes: &mut Outcomes,
    ) -> Result<(), Fault> {
        let mut failures = self.failures_in(number, Asked::Step, rows, reply)?;
        outcomes.take(rows.len(), &failures, reply, raw)?;
        self.take_steps(number, rows, reply, raw, &mut failures, outcomes)?;
        self.fail_rows(number, failures.into_iter().map(|(place, error)| (rows[place], error)).collect());
        Ok(())
    }

    fn take_steps(
        &mut self,
        number: usize,
        rows: &[usize],
        reply: &PackedReply<'_>,
        raw: &[u8],
        failures: &mut Failures,
        outcomes: &Outcomes,
    ) -> Result<(), Fault> {
        let observations = needed(reply.obs, "obs", "a step")?;
        self.keep_infos(number, rows, reply.infos, raw)?;
        self.keep_observations(rows, &observations, raw, failures, "step")?;
        self.note_steps(rows, outcomes);
        self.count_steps(number, rows);
        if !outcomes.are_finite() {
            self.warn_of_rewards(rows, failures, outcomes);
        }
        if self.vector.is_some() {
            self.note_own_autoresets(rows, outcomes, 0..rows.len());
        } else if let Some(mode) = self.autoreset {
            for (place, local) in rows.iter().enumerate() {
                if !outcomes.ended(place) || has_failed(failures, place) {
                    continue;
                }
                self.rows[*local].ended = mode == Autoreset::NextStep;
                if mode == Autoreset::SameStep {
                    let row = &mut self.rows[*local];
                    let mut last = row.last_of_episode.take().unwrap_or_default();
                    std::mem::swap(&mut last.1, &mut row.info);
                    unstack(&observations, raw, rows.len(), place, &mut last.0)?;
                    self.rows[*local].last_of_episode = Some(last);
                    self.autoreset(*local, Purpose::SameStep);
                }
            }
        } else if outcomes.any_ended() {
            for (place, local) in rows.iter().enumerate() {
                self.rows[*local].ended |= outcomes.ended(place);
            }
        }
        let resets = self.vector.is_none() && self.autoreset == Some(Autoreset::SameStep);
        let waits = |place: usize| has_failed(failures, place) || (resets && outcomes.ended(place));
        self.finish_rows(number, rows, &|place| !waits(place));
        if failures.is_empty() && rows.len() == self.packs[number].rows.len() {
            self.become_quiet(number, reply, outcomes);
        }
        Ok(())
    }

    fn warn_of_rewards(&mut self, rows: &[usize], failures: &Failures, outcomes: &Outcomes) {
        for (place, local) in rows.iter().enumerate() {
            if !outcomes.rewards[place].is_finite() && !has_failed(failures, place) {
                add_member(&mut self.rows[*local].info, "sandpool_warning", b"\"nonfinite_reward\"");
            }
        }
    }

    /// A vectorised environment resets its rows itself; they count as resets of theirs.
    pub(super) fn note_own_autoresets(
        &mut self,
        rows: &[usize],
        outcomes: &Outcomes,
        places: impl Iterator<Item = usize>,
    ) {
        let stepped = rows.first().map_or(0, |local| self.steps_together(*local));
        for place in places {
            let row = &mut self.rows[rows[place]];
            let begins = match self.autoreset {
                None => {
                    row.ended |= outcomes.ended(place);
                    false
                }
                Some(Autoreset::SameStep) => outcomes.ended(place),
                Some(Autoreset::NextStep) => std::mem::replace(&mut row.ended, outcomes.ended(place)),
            };
            if begins {
                row.episode += 1;
                row.steps = 0u64.wrapping_sub(stepped);
                row.seed = None;
            }
        }
    }
}
