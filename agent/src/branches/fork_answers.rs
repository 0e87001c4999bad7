//! What a row's process answers when it was asked for a copy.

use super::blockers::reported;
use super::messages::{self, Answer};
use super::phase::Site;
use crate::rows::error::ReportedError;
use crate::rows::pack::Asked;
use crate::shard::Shard;
use crate::values::fault::{Fault, excerpt};

impl Shard {
    /// A line of a process that was asked for no batch. Returns how many raw bytes it took; an error is the number of
    /// raw bytes that have to be there first.
    pub(crate) fn take_branch_line(&mut self, number: usize, line: &[u8], after: &[u8]) -> Result<usize, usize> {
        let answer = match messages::scan(line) {
            Ok(answer) => answer,
            Err(fault) => {
                self.unacceptable_line(number, &fault, line);
                return Ok(0);
            }
        };
        if self.is_too_long(number, line.len(), answer.raw_bytes) {
            return Ok(0);
        }
        if after.len() < answer.raw_bytes {
            return Err(answer.raw_bytes);
        }
        let pack = &self.packs[number];
        let (asked, is_last) = (pack.asked, answer.id == Some(pack.last_id));
        let site = Site::Row(pack.rows.start);
        let raw = &after[..answer.raw_bytes];
        let taken = match asked {
            Asked::Fork => {
                if !self.fork_answer(site, &answer) {
                    self.unexpected_fork_answer(number, line, &answer);
                }
                Ok(())
            }
            Asked::GetState if is_last => {
                self.all_answered(site);
                self.take_values(number, &answer, raw)
            }
            Asked::SetState if is_last => {
                self.all_answered(site);
                self.state_was_set(number, &answer)
            }
            _ => {
                self.unexpected_answer(number, answer.id);
                Ok(())
            }
        };
        if let Err(fault) = taken {
            self.packs[number].asked = asked;
            self.break_protocol(number, &fault);
        }
        Ok(answer.raw_bytes)
    }

    /// Takes what a source says of a copy; false when it is none of its copies, or nothing that can be said.
    pub(super) fn fork_answer(&mut self, site: Site, answer: &Answer<'_>) -> bool {
        let Some(phase) = &mut self.branches.phase else {
            return false;
        };
        let Some(number) = phase.origin_at(site) else {
            return false;
        };
        let asked = phase.pairs_of(number).find(|pair| {
            let pair = &phase.pairs[*pair];
            pair.asked.is_some() && pair.asked == answer.id && !pair.answered
        });
        let Some(place) = asked else {
            return false;
        };
        if answer.error.is_none() && !(answer.ok && answer.pid.is_some()) {
            return false;
        }
        phase.pairs[place].answered = true;
        let origin = &mut phase.origins[number];
        origin.unanswered = origin.unanswered.saturating_sub(1);
        let last = origin.unanswered == 0;
        let key = phase.pairs[place].copy;
        if let Some(member) = &answer.error {
            let error = ReportedError::parse(member.text);
            reported(error.blockers, error.message).into_iter().for_each(|blocker| origin.block(blocker));
            self.drop_copy_of(place);
        }
        if last {
            self.all_answered(site);
        }
        match (key, answer.pid) {
            (Some(key), Some(pid)) if answer.error.is_none() => self.learn_copys_pid(key, pid),
            _ => true,
        }
    }

    fn unexpected_fork_answer(&mut self, number: usize, line: &[u8], answer: &Answer<'_>) {
        let pack = &self.packs[number];
        let late = answer.id.is_some_and(|id| id <= pack.last_id);
        let known = |pair: &super::phase::Pair| pair.asked == answer.id && pair.answered;
        let answered = self.branches.phase.as_ref().is_some_and(|phase| phase.pairs.iter().any(known));
        if late && (answered || answer.ok) && answer.pid.is_none() {
            return self.unexpected_answer(number, answer.id);
        }
        let fault = format!("'{}', expected an answer to fork with the pid of the copy", excerpt(line));
        self.break_protocol(number, &Fault::new(fault));
    }
}
