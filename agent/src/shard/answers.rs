//! What an answer means for the row that gave it.

use super::Shard;
use super::values::{add_member, keep, keep_info};
use crate::channel::request::Autoreset;
use crate::rows::error::{ErrorKind, ReportedError};
use crate::rows::pack::Asked;
use crate::rows::row::{NEVER, Purpose, ResetTask, Task};
use crate::values::fault::Fault;
use crate::values::items;
use crate::values::reply::{self, Member, Reply};

/// Answers that nobody waits for, since the last request, before the row is ended.
const LATE_LIMIT: u32 = 256;

impl Shard {
    /// One scanned answer and its raw bytes.
    #[inline]
    pub(crate) fn answered(&mut self, number: usize, reply: &Reply<'_>, raw: &[u8]) {
        let pack = &mut self.packs[number];
        if pack.asked == Asked::Nothing || reply.id != Some(pack.last_id) {
            return self.unexpected_answer(number, reply.id);
        }
        pack.deadline_us = NEVER;
        let local = pack.rows.start;
        if let Some(member) = reply.error {
            return self.error_answer(number, &member);
        }
        let asked = std::mem::replace(&mut pack.asked, Asked::Nothing);
        let done = match asked {
            Asked::Step => self.step_answer(local, reply, raw),
            Asked::Reset => self.reset_answer(local, reply, raw),
            Asked::Call => self.call_answer(local, reply, raw),
            _ => Ok(()),
        };
        if let Err(fault) = done {
            // It is what the answer was to that failed.
            self.packs[number].asked = asked;
            self.break_protocol(number, &fault);
        }
    }

    /// An answer to something that was answered before is dropped and counted; any other is a fault.
    #[cold]
    pub(crate) fn unexpected_answer(&mut self, number: usize, id: Option<u64>) {
        let pack = &mut self.packs[number];
        let last = pack.last_id;
        match id {
            Some(id) if id <= last && pack.late < LATE_LIMIT => {
                pack.late += 1;
                self.counters.late_replies += 1;
            }
            Some(id) if id <= last => {
                let fault = format!("more than {LATE_LIMIT} answers to requests that were answered before");
                self.break_protocol(number, &Fault::new(fault));
            }
            Some(id) => {
                let fault = format!("an answer with the id {id}, expected {last}");
                self.break_protocol(number, &Fault::new(fault));
            }
            None => self.break_protocol(number, &Fault::new(format!("an answer without an id, expected {last}"))),
        }
    }

    /// The environment answered with an error.
    fn error_answer(&mut self, number: usize, member: &Member<'_>) {
        let pack = &mut self.packs[number];
        let error = ReportedError::parse(member.text).into_error(pack.op());
        let asked = std::mem::replace(&mut pack.asked, Asked::Nothing);
        let local = pack.rows.start;
        if asked == Asked::Close {
            return;
        }
        if error.kind == ErrorKind::Exception {
            if asked == Asked::Call {
                return self.finish_failed_call(local, &error);
            }
            if let Task::Reset(task) = &self.rows[local].task
                && !task.retried
                && self.creation.is_none()
            {
                let retry = ResetTask { retried: true, ..task.clone() };
                return self.retry_reset(local, retry);
            }
        }
        self.fail_pack(number, error);
    }

    fn step_answer(&mut self, local: usize, reply: &Reply<'_>, raw: &[u8]) -> Result<(), Fault> {
        let observation = reply.obs.ok_or_else(|| missing("obs", "a step"))?;
        let reward = reply.reward.ok_or_else(|| missing("reward", "a step"))?;
        let reward = reply::reward(&reward, raw)?;
        let (terminated, truncated) = ends(reply)?;
        self.rows[local].steps += 1;
        self.keep_row_info(local, reply.info.as_ref(), raw)?;
        let ends = terminated || truncated;
        let autoreset = self.autoreset.filter(|_| ends);
        if !reward.is_finite() {
            add_member(&mut self.rows[local].info, "sandpool_warning", b"\"nonfinite_reward\"");
        }
        if autoreset == Some(Autoreset::SameStep) {
            self.check_observation(&observation, raw)?;
            let row = &mut self.rows[local];
            let mut last = row.last_of_episode.take().unwrap_or_default();
            keep(&mut last.0, &observation, raw)?;
            std::mem::swap(&mut last.1, &mut row.info);
            row.last_of_episode = Some(last);
            self.note_step(local, reward, terminated, truncated);
            self.autoreset(local, Purpose::SameStep);
            return Ok(());
        }
        self.keep_observation(local, &observation, raw)?;
        self.rows[local].ended |= ends;
        self.note_step(local, reward, terminated, truncated);
        self.finish_row(local);
        Ok(())
    }

    fn reset_answer(&mut self, local: usize, reply: &Reply<'_>, raw: &[u8]) -> Result<(), Fault> {
        let observation = reply.obs.ok_or_else(|| missing("obs", "a reset"))?;
        self.keep_row_info(local, reply.info.as_ref(), raw)?;
        self.keep_observation(local, &observation, raw)?;
        self.begin_episode(local);
        self.finish_row(local);
        Ok(())
    }

    /// The row was reset: its observation and info are in place.
    pub(crate) fn begin_episode(&mut self, local: usize) {
        let stepped = self.steps_together(local);
        let row = &mut self.rows[local];
        row.steps = 0u64.wrapping_sub(stepped);
        if let Task::Reset(task) = &row.task {
            row.seed = task.seed;
        }
        row.reset_info.text.clone_from(&row.info.text);
        row.reset_info.arrays = row.info.arrays;
        row.error = None;
        row.error_shown = false;
        row.fresh = false;
        row.ended = false;
        if row.task.follows_an_end() {
            self.tell_end(local);
        }
    }

    /// Adds what the episode that just ended left to the row's info.
    pub(crate) fn tell_end(&mut self, local: usize) {
        let row = &mut self.rows[local];
        if let Some(last) = &row.last_of_episode {
            let (observation, info) = &**last;
            add_member(&mut row.info, "final_obs", &observation.text);
            let text = if info.text.is_empty() { b"{}" } else { info.text.as_slice() };
            add_member(&mut row.info, "final_info", text);
            row.info.arrays |= observation.arrays || info.arrays;
        }
    }

    fn call_answer(&mut self, local: usize, reply: &Reply<'_>, raw: &[u8]) -> Result<(), Fault> {
        let result = reply.result.ok_or_else(|| missing("result", "a call"))?;
        let row = &mut self.rows[local];
        keep(&mut row.result, &result, raw)?;
        let bytes = row.result.text.len();
        self.check_size(bytes, "a result")?;
        self.finish_row(local);
        Ok(())
    }

    fn keep_row_info(&mut self, local: usize, member: Option<&Member<'_>>, raw: &[u8]) -> Result<(), Fault> {
        keep_info(&mut self.rows[local].info, member, raw)?;
        self.check_size(self.rows[local].info.text.len(), "an info")
    }
}

/// How the episode goes on. `done` of the old interface counts as `terminated`, unless a time limit says otherwise.
fn ends(reply: &Reply<'_>) -> Result<(bool, bool), Fault> {
    let truncated = reply.truncated.unwrap_or(false);
    if let Some(terminated) = reply.terminated {
        return Ok((terminated, truncated));
    }
    let Some(done) = reply.done else {
        return Err(missing("terminated", "a step"));
    };
    let by_time_limit = done && reply.info.as_ref().is_some_and(|info| says_time_limit(info.text));
    Ok((done && !by_time_limit, truncated || by_time_limit))
}

fn says_time_limit(info: &[u8]) -> bool {
    items::member(info, b"TimeLimit.truncated").is_ok_and(|place| place.is_some_and(|place| &info[place] == b"true"))
}

fn missing(member: &str, of: &str) -> Fault {
    Fault::new(format!("no \"{member}\" in the answer to {of}"))
}
