//! What an answer for several rows means for each of them.

use crate::rows::error::{ErrorKind, ReportedError};
use crate::rows::pack::{Asked, Life};
use crate::shard::Shard;
use crate::values::fault::{Fault, excerpt};
use crate::values::packed::{self, PackedReply};
use crate::values::reply::Member;

impl Shard {
    /// Takes a line of a process with several rows, or of the probe, and returns how many raw bytes it took; an error is
    /// the number of raw bytes that have to be there first.
    pub(crate) fn take_packed_line(&mut self, number: usize, line: &[u8], after: &[u8]) -> Result<usize, usize> {
        let reply = match packed::scan(line) {
            Ok(reply) => reply,
            Err(fault) => {
                self.unacceptable_line(number, &fault, line);
                return Ok(0);
            }
        };
        if self.is_too_long(number, line.len(), reply.raw_bytes) {
            return Ok(0);
        }
        if after.len() < reply.raw_bytes {
            return Err(reply.raw_bytes);
        }
        if self.packs[number].life == Life::Probe {
            self.probe_answered(number, &reply);
        } else {
            self.packed_answer(number, &reply, &after[..reply.raw_bytes]);
        }
        Ok(reply.raw_bytes)
    }

    fn packed_answer(&mut self, number: usize, reply: &PackedReply<'_>, raw: &[u8]) {
        let pack = &mut self.packs[number];
        if pack.asked == Asked::Nothing || reply.id != Some(pack.last_id) {
            return self.unexpected_answer(number, reply.id);
        }
        pack.deadline_us = crate::rows::row::NEVER;
        let epoch = pack.epoch;
        let asked = std::mem::replace(&mut pack.asked, Asked::Nothing);
        let rows = pack.packed.as_mut().map(|packed| std::mem::take(&mut packed.asked)).unwrap_or_default();
        let done = match (reply.error, asked) {
            (Some(member), Asked::Step | Asked::Reset | Asked::Call) => {
                self.whole_error(number, asked, &rows, &member);
                Ok(())
            }
            (None, Asked::Step) => self.packed_steps(number, &rows, reply, raw),
            (None, Asked::Reset) => self.packed_resets(number, &rows, reply, raw),
            (None, Asked::Call) => self.packed_calls(number, &rows, reply, raw),
            _ => Ok(()),
        };
        if self.broken || self.packs[number].epoch != epoch {
            return;
        }
        if let Some(packed) = &mut self.packs[number].packed {
            packed.asked = rows;
        }
        match done {
            Ok(()) => self.ask_waiting(number),
            Err(fault) => {
                self.packs[number].asked = asked;
                self.break_protocol(number, &fault);
            }
        }
    }

    /// The whole message failed. A vectorised environment is made anew then, so that none of its rows goes on.
    pub(crate) fn whole_error(&mut self, number: usize, asked: Asked, rows: &[usize], member: &Member<'_>) {
        self.rouse(number);
        let error = self.row_error(number, asked, ReportedError::parse(member.text));
        if matches!(error.kind, ErrorKind::Oom | ErrorKind::Protocol) {
            self.packs[number].asked = asked;
            return self.fail_pack(number, error);
        }
        if asked == Asked::Call && error.kind == ErrorKind::Exception {
            return rows.iter().for_each(|local| self.finish_failed_call(*local, &error));
        }
        let rows = if self.vector.is_some() { self.packs[number].rows.clone().collect() } else { rows.to_vec() };
        self.fail_rows(number, rows.into_iter().map(|local| (local, error.clone())).collect());
    }
}

/// A member that an answer has to have.
pub(crate) fn needed<'a>(member: Option<Member<'a>>, name: &str, of: &str) -> Result<Member<'a>, Fault> {
    member.ok_or_else(|| Fault::new(format!("no \"{name}\" in the answer to {of} of several rows")))
}

/// A row's number inside its process as its place among the rows of a message.
pub(crate) fn place_of(rows: &[usize], first: usize, number: usize, name: &str) -> Result<usize, Fault> {
    rows.binary_search(&first.saturating_add(number)).map_err(|_| {
        let asked: Vec<String> = rows.iter().map(|local| (local - first).to_string()).collect();
        let asked = excerpt(asked.join(",").as_bytes());
        Fault::new(format!("row {number} in \"{name}\", expected one of those that were asked: {asked}"))
    })
}
