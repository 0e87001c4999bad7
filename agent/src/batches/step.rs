//! Sends steps.

use super::batch::{Actions, Message, Work};
use crate::channel::request::Autoreset;
use crate::rows::pack::{Asked, Life};
use crate::rows::row::{Purpose, Row, Task};
use crate::shard::Shard;
use crate::system;
use crate::values::{items, numbers};
use std::ops::Range;

impl Shard {
    /// Sends as many rows their line as may run at once, the batch's or those that are out. Rows of one process go
    /// together.
    pub(crate) fn dispatch(&mut self) {
        if self.batch.is_none() {
            return self.dispatch_stream();
        }
        let limit = self.in_flight_limit();
        while let Some(batch) = &mut self.batch {
            let begin = batch.next;
            let Some(first) = batch.message.rows.get(begin) else {
                return;
            };
            let number = self.rows[*first].pack;
            let end_row = self.packs[number].rows.end;
            let end = begin + batch.message.rows[begin..].partition_point(|local| *local < end_row);
            if begin > batch.done && end - batch.done > limit {
                return;
            }
            batch.next = end;
            self.dispatch_pack(number, begin..end);
        }
    }

    fn dispatch_pack(&mut self, number: usize, slots: Range<usize>) {
        if self.ask_quietly(number, &slots) {
            return;
        }
        let part = slots.len() < self.packs[number].rows.len();
        let may_reset = self.may_reset(number);
        for slot in slots {
            let Some(batch) = &self.batch else {
                return;
            };
            let local = batch.message.rows[slot];
            match batch.message.work {
                Work::Step(_) => self.step_row(local, slot, may_reset),
                Work::Reset { .. } => self.reset_row(local, slot, part),
                Work::Call { .. } => self.call_row(local, slot),
                Work::Settle => self.settle_row(local, slot),
            }
        }
        self.ask_waiting(number);
    }

    /// Rows that may run at once.
    pub(crate) fn in_flight_limit(&self) -> usize {
        self.settings.in_flight.unwrap_or(usize::MAX).max(1)
    }

    /// What a row was asked for last, as long as that is needed.
    #[inline]
    pub(crate) fn message_of(&self, local: usize) -> Option<&Message> {
        match &self.batch {
            Some(batch) => Some(&batch.message),
            None => self.stream.message(local),
        }
    }

    /// A vectorised environment that failed is reset whole: not before each of its rows has shown the error.
    pub(crate) fn may_reset(&self, number: usize) -> bool {
        let shown = |row: &Row| row.error.is_none() || row.error_shown;
        self.vector.is_none() || self.rows[self.packs[number].rows.clone()].iter().all(shown)
    }

    /// One row of a step; `may_reset`: a failed one may be reset by it.
    #[inline]
    pub(crate) fn step_row(&mut self, local: usize, slot: usize, may_reset: bool) {
        let row = &self.rows[local];
        let number = row.pack;
        if row.error.is_some() {
            // The error is shown once before a pending reset may take its place.
            let ready = self.packs[number].life == Life::Ready;
            let resets = self.autoreset.is_some() && row.error_shown && may_reset && ready;
            return if resets { self.autoreset(local, Purpose::NextStep) } else { self.repeat_error(local) };
        }
        // A vectorised environment resets its rows itself.
        if row.ended && self.autoreset == Some(Autoreset::NextStep) && self.vector.is_none() {
            return self.autoreset(local, Purpose::NextStep);
        }
        if self.is_packed(number) {
            return self.queue_step(local);
        }
        let mut line = std::mem::take(&mut self.line);
        self.write_step(local, slot, &mut line);
        self.rows[local].task = Task::Step;
        self.ask(number, Asked::Step, &line, self.settings.deadlines_ms.step);
        self.line = line;
    }

    #[inline]
    fn write_step(&mut self, local: usize, slot: usize, line: &mut Vec<u8>) {
        let number = self.rows[local].pack;
        self.begin_line(number, line);
        line.extend_from_slice(b",\"op\":\"step\",\"action\":");
        let Some(message) = self.message_of(local) else {
            return;
        };
        match &message.work {
            Work::Step(Actions::Json(places)) => {
                items::append_line_safe(line, &message.body[places[slot].clone()]);
                line.extend_from_slice(b"}\n");
            }
            Work::Step(Actions::Array(array)) => {
                let bytes = &message.body[slot * array.bytes..(slot + 1) * array.bytes];
                let takes_raw = self.packs[number].process.as_ref().is_some_and(|process| process.takes_raw);
                if array.write(bytes, takes_raw, line) {
                    line.extend_from_slice(b",\"raw\":");
                    numbers::write_u64(line, bytes.len() as u64);
                    line.extend_from_slice(b"}\n");
                    line.extend_from_slice(bytes);
                } else {
                    line.extend_from_slice(b"}\n");
                }
            }
            _ => {}
        }
    }

    /// Begins a request line with the pack's next number.
    #[inline]
    pub(crate) fn begin_line(&mut self, number: usize, line: &mut Vec<u8>) {
        let pack = &mut self.packs[number];
        pack.last_id += 1;
        pack.late = 0;
        line.clear();
        line.extend_from_slice(b"{\"id\":");
        numbers::write_u64(line, pack.last_id);
    }

    /// Sends a pack its line; its clock starts now.
    #[inline]
    pub(crate) fn ask(&mut self, number: usize, asked: Asked, line: &[u8], deadline_ms: u64) {
        let now_us = system::now_us();
        let pack = &mut self.packs[number];
        pack.asked = asked;
        pack.sent_us = now_us;
        pack.deadline_ms = deadline_ms;
        pack.deadline_us = pack.deadline_us.min(now_us + deadline_ms * 1000);
        let deadline_us = pack.deadline_us;
        self.note_deadline(deadline_us);
        self.send_to_pack(number, line);
    }
}
