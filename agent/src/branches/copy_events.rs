//! What copies and states say.

use super::copies::Stage;
use super::messages::{self, Answer};
use super::phase::Site;
use crate::event_loop::{Readiness, Source, Token};
use crate::rows::error::{ErrorKind, ReportedError, RowError};
use crate::rows::pack::Asked;
use crate::rows::row::NEVER;
use crate::shard::{Shard, TURN_BYTES};
use crate::starts::EXIT_STATUS_US;
use crate::system;
use crate::values::fault::{Fault, excerpt};
use std::io;

impl Shard {
    /// Something happened on the channel of a copy.
    pub(crate) fn copy_event(&mut self, key: u32, readiness: Readiness) {
        if readiness.writable {
            self.send_to_copy(key, &[]);
            let slot = self.branches.copies.get(&key).map(|copied| copied.stage);
            if let Some(Stage::Kept(slot)) = slot
                && let Some(origin) = self.branches.phase.as_ref().and_then(|phase| phase.origin_at(Site::State(slot)))
            {
                self.send_forks_to(origin);
            }
        }
        if readiness.readable {
            self.read_copy(key);
        }
    }

    /// Sends a copy a line; what it does not take now follows when it reads.
    pub(super) fn send_to_copy(&mut self, key: u32, line: &[u8]) {
        let Some(copied) = self.branches.copies.get_mut(&key) else {
            return;
        };
        let stream = &mut copied.process.stream;
        // An error shows as the end of the stream too.
        let sent = if line.is_empty() { stream.flush() } else { stream.send(line) };
        let token = Token::of_pack(Source::Copy, key as usize, 0);
        let _ = self.poller.change_level(stream.reading(), token, !sent.unwrap_or(true));
    }

    /// Reads once; the poller tells when there is more.
    fn read_copy(&mut self, key: u32) {
        let Some(copied) = self.branches.copies.get_mut(&key) else {
            return;
        };
        let stream = &mut copied.process.stream;
        match system::read_into(stream.reading(), &mut stream.input, TURN_BYTES) {
            Ok(0) => self.copys_stream_ended(key),
            Ok(_) => while self.take_copys_line(key) {},
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.copys_stream_ended(key),
        }
    }

    fn copys_stream_ended(&mut self, key: u32) {
        let Some(copied) = self.branches.copies.get_mut(&key) else {
            return;
        };
        self.poller.remove(copied.process.stream.reading());
        copied.ending = true;
        // Its exit status is on its way and says more.
        copied.deadline_us = system::now_us() + EXIT_STATUS_US;
        let deadline_us = copied.deadline_us;
        self.note_deadline(deadline_us);
    }

    /// Takes the next whole line; false when there is none.
    fn take_copys_line(&mut self, key: u32) -> bool {
        let limit = self.settings.max_message_bytes;
        let Some(copied) = self.branches.copies.get_mut(&key) else {
            return false;
        };
        let input = &mut copied.process.stream.input;
        let Some(end) = system::find_byte(b'\n', input) else {
            if input.len() > limit {
                self.copy_broke_protocol(key, &format!("a line of more than {limit} bytes"));
            }
            return false;
        };
        let line = input[..end].to_vec();
        let answer = match messages::scan(&line) {
            Ok(answer) if answer.raw_bytes.saturating_add(end) <= limit => answer,
            Ok(_) => {
                self.copy_broke_protocol(key, &format!("a message of more than {limit} bytes"));
                return false;
            }
            Err(fault) => {
                self.copy_broke_protocol(key, &format!("{fault}"));
                return false;
            }
        };
        let after = end + 1 + answer.raw_bytes;
        if input.len() < after {
            return false;
        }
        let raw = input[end + 1..after].to_vec();
        input.drain(..after);
        self.copy_said(key, &line, &answer, &raw);
        true
    }

    fn copy_said(&mut self, key: u32, line: &[u8], answer: &Answer<'_>, raw: &[u8]) {
        let Some(copied) = self.branches.copies.get(&key) else {
            return;
        };
        let last_id = copied.last_id;
        match (copied.stage, copied.asked) {
            (Stage::Starting, _) => self.copys_hello(key, line, answer),
            (Stage::Kept(slot), Asked::Fork) => {
                let known = self.fork_answer(Site::State(slot), answer);
                if !known {
                    self.copy_broke_protocol(key, &format!("'{}', expected an answer to fork", excerpt(line)));
                }
            }
            (Stage::Kept(slot), Asked::GetState) if answer.id == Some(last_id) => {
                self.all_answered(Site::State(slot));
                if let Err(fault) = self.take_value(Site::State(slot), answer, raw) {
                    self.copy_broke_protocol(key, &fault.to_string());
                }
            }
            _ => self.copy_said_unasked(key),
        }
    }

    /// Nobody waits for anything from it: that is overheard, but not without end.
    fn copy_said_unasked(&mut self, key: u32) {
        const LIMIT: u32 = 256;
        let Some(copied) = self.branches.copies.get_mut(&key) else {
            return;
        };
        copied.unasked += 1;
        if copied.unasked > LIMIT {
            self.copy_broke_protocol(key, &format!("more than {LIMIT} lines that nobody asked for"));
        }
    }

    fn copys_hello(&mut self, key: u32, line: &[u8], answer: &Answer<'_>) {
        if let Err(fault) = self.take_copys_hello(key, answer) {
            self.copy_failed(key, &format!("its hello is not one: {fault}; received '{}'", excerpt(line)));
        }
    }

    fn take_copys_hello(&mut self, key: u32, answer: &Answer<'_>) -> Result<(), Fault> {
        let Some(phase) = &self.branches.phase else {
            return Ok(());
        };
        let Some(number) = phase.pair_with(key) else {
            return Ok(());
        };
        let pair = &phase.pairs[number];
        let index = match pair.target {
            Site::Row(local) => Some(u64::from(self.rows[local].index)),
            Site::State(_) => phase.origins[pair.origin].snapshot.as_ref().map(|snapshot| snapshot.row.into()),
        };
        if let Some(member) = &answer.error {
            let error = ReportedError::parse(member.text);
            return Err(Fault::new(error.message.unwrap_or_else(|| "an error".to_owned())));
        }
        if answer.id != Some(0) || !answer.ok || answer.index.is_some_and(|told| Some(told) != index) {
            return Err(Fault::new(format!("expected the id 0, ok and the index {index:?}")));
        }
        let told = answer.reseeded.as_ref().map(|member| messages::names(member.text)).transpose()?;
        let (target, reseeded) = (pair.target, pair.reseed.map(|_| told.unwrap_or_default()));
        if let Some(pid) = answer.pid
            && !self.learn_copys_pid(key, pid)
        {
            return Err(Fault::new(format!("the pid {pid}, which is not the one its source told")));
        }
        // It may have ended since.
        let Some(copied) = self.branches.copies.get_mut(&key) else {
            return Ok(());
        };
        copied.stage = Stage::Held;
        copied.deadline_us = NEVER;
        let _ = self.isolation.detach_workspace(&copied.identity);
        self.lend_back(key, target);
        if let Some(phase) = &mut self.branches.phase {
            phase.pairs[number].held = true;
            phase.pairs[number].reseeded = reseeded;
        }
        Ok(())
    }

    /// A copy or a state said what the protocol does not allow.
    pub(super) fn copy_broke_protocol(&mut self, key: u32, what: &str) {
        let message = format!("a line that cannot be accepted: {what}");
        self.copy_over(key, RowError::new(ErrorKind::Protocol, "idle", message));
    }
}
