//! The messages to a process with several rows.

use crate::batches::batch::{Actions, Work};
use crate::channel::request::CallKind;
use crate::rows::pack::Asked;
use crate::rows::row::Task;
use crate::shard::Shard;
use crate::values::{items, numbers};
use std::borrow::Cow;
use std::ops::Range;

impl Shard {
    /// Sends a step to the rows that were taken from the queue.
    pub(crate) fn ask_steps(&mut self, number: usize) {
        let mut line = std::mem::take(&mut self.line);
        let rows = self.begin_packed_line(number, b"step", &mut line);
        let raw = self.write_actions(number, &rows, &mut line);
        let deadline_ms = self.settings.deadlines_ms.step;
        end_line(&mut line, deadline_ms);
        if let Some(raw) = raw {
            line.extend_from_slice(&raw);
        }
        self.forget_messages(&rows);
        self.send_packed(number, Asked::Step, rows, line, deadline_ms);
    }

    /// Appends the rows' actions, and gives those that follow the line as raw bytes.
    fn write_actions(&self, number: usize, rows: &[usize], line: &mut Vec<u8>) -> Option<Cow<'_, [u8]>> {
        line.extend_from_slice(b",\"actions\":");
        let message = rows.first().and_then(|local| self.message_of(*local));
        let work = message.map(|message| (&message.body, &message.work));
        let (Some((body, Work::Step(actions))), Some(slots)) = (work, self.slots_of(rows)) else {
            line.extend_from_slice(b"[]");
            return None;
        };
        match actions {
            Actions::Json(places) => {
                line.push(b'[');
                if slots.len() == rows.len() {
                    // They stand side by side in the client's list, commas included.
                    items::append_line_safe(line, &body[places[slots.start].start..places[slots.end - 1].end]);
                } else {
                    for (position, local) in rows.iter().enumerate() {
                        line.extend_from_slice(if position > 0 { b"," } else { b"" });
                        items::append_line_safe(line, &body[places[self.rows[*local].slot].clone()]);
                    }
                }
                line.push(b']');
                None
            }
            Actions::Array(array) => {
                let takes_raw = self.packs[number].process.as_ref().is_some_and(|process| process.takes_raw);
                let bytes_of = |slots: Range<usize>| &body[slots.start * array.bytes..slots.end * array.bytes];
                let bytes = if slots.len() == rows.len() {
                    Cow::Borrowed(bytes_of(slots))
                } else {
                    let slots = rows.iter().map(|local| self.rows[*local].slot);
                    Cow::Owned(slots.flat_map(|slot| bytes_of(slot..slot + 1)).copied().collect())
                };
                array.write_rows(&bytes, rows.len(), takes_raw, line).then_some(bytes)
            }
        }
    }

    /// The places of the rows in their message, from the first to the last; as many as the rows when none is left out.
    fn slots_of(&self, rows: &[usize]) -> Option<Range<usize>> {
        let (first, last) = (rows.first()?, rows.last()?);
        Some(self.rows[*first].slot..self.rows[*last].slot + 1)
    }

    /// Sends a reset to the rows that were taken from the queue; `hard`: with new environment objects.
    pub(crate) fn ask_resets(&mut self, number: usize, hard: bool) {
        let mut line = std::mem::take(&mut self.line);
        let rows = self.begin_packed_line(number, b"reset", &mut line);
        let tasks = || {
            rows.iter().filter_map(|local| match &self.rows[*local].task {
                Task::Reset(task) => Some(task),
                _ => None,
            })
        };
        line.extend_from_slice(b",\"seeds\":");
        if tasks().all(|task| task.seed.is_none()) {
            line.extend_from_slice(b"null");
        } else {
            list_of(&mut line, tasks(), |line, task| match task.seed {
                Some(seed) => numbers::write_u64(line, seed),
                None => line.extend_from_slice(b"null"),
            });
        }
        let first = tasks().next().and_then(|task| task.options.clone());
        let message = rows.first().and_then(|local| self.message_of(*local));
        let body = message.map_or(&[][..], |message| &message.body);
        let write = |line: &mut Vec<u8>, options: &Option<Range<usize>>| match options {
            Some(place) => items::append_line_safe(line, body.get(place.clone()).unwrap_or(b"null")),
            None => line.extend_from_slice(b"null"),
        };
        line.extend_from_slice(b",\"options\":");
        if tasks().all(|task| task.options == first) {
            write(&mut line, &first);
        } else {
            line.extend_from_slice(b"null,\"options_each\":");
            list_of(&mut line, tasks(), |line, task| write(line, &task.options));
        }
        line.extend_from_slice(if hard { b",\"hard\":true" } else { b",\"hard\":false" });
        let deadline_ms = self.settings.deadlines_ms.reset;
        end_line(&mut line, deadline_ms);
        self.send_packed(number, Asked::Reset, rows, line, deadline_ms);
    }

    /// Sends a call to the rows that were taken from the queue.
    pub(crate) fn ask_calls(&mut self, number: usize) {
        let Some((kind, deadline_ms)) = self.batch.as_ref().and_then(|batch| match &batch.message.work {
            Work::Call { kind, deadline_ms, .. } => Some((*kind, *deadline_ms)),
            _ => None,
        }) else {
            return;
        };
        let mut line = std::mem::take(&mut self.line);
        let rows = self.begin_packed_line(number, kind.op().as_bytes(), &mut line);
        if let Some((body, Work::Call { members, values, .. })) =
            self.batch.as_ref().map(|batch| (&batch.message.body, &batch.message.work))
        {
            line.extend_from_slice(members);
            let write = |line: &mut Vec<u8>, place: Option<Range<usize>>| match place {
                Some(place) => items::append_line_safe(line, &body[place]),
                None => line.extend_from_slice(b"null"),
            };
            if kind == CallKind::Set && values.is_each() {
                line.extend_from_slice(b",\"values\":");
                list_of(&mut line, rows.iter(), |line, local| write(line, values.of(self.rows[*local].slot)));
            } else if kind == CallKind::Set {
                line.extend_from_slice(b",\"value\":");
                write(&mut line, values.of(0));
            }
        }
        end_line(&mut line, deadline_ms);
        self.send_packed(number, Asked::Call, rows, line, deadline_ms);
    }

    /// Begins a message; the rows that it is for are lent until `send_packed`.
    pub(crate) fn begin_packed_line(&mut self, number: usize, op: &[u8], line: &mut Vec<u8>) -> Vec<usize> {
        self.begin_line(number, line);
        line.extend_from_slice(b",\"op\":\"");
        line.extend_from_slice(op);
        line.extend_from_slice(b"\",\"rows\":");
        let pack = &mut self.packs[number];
        let rows = pack.packed.as_mut().map(|packed| std::mem::take(&mut packed.asked)).unwrap_or_default();
        if rows.len() == pack.rows.len() {
            line.extend_from_slice(b"null");
        } else {
            let first = pack.rows.start;
            list_of(line, rows.iter(), |line, local| numbers::write_u64(line, (local - first) as u64));
        }
        rows
    }

    pub(crate) fn send_packed(
        &mut self,
        number: usize,
        asked: Asked,
        rows: Vec<usize>,
        line: Vec<u8>,
        deadline_ms: u64,
    ) {
        if let Some(packed) = &mut self.packs[number].packed {
            packed.asked = rows;
        }
        self.ask(number, asked, &line, deadline_ms);
        self.line = line;
    }
}

/// Ends a line; raw bytes that it announces may follow.
pub(crate) fn end_line(line: &mut Vec<u8>, deadline_ms: u64) {
    line.extend_from_slice(b",\"deadline_ms\":");
    numbers::write_u64(line, deadline_ms);
    line.extend_from_slice(b"}\n");
}

pub(crate) fn list_of<T>(line: &mut Vec<u8>, items: impl Iterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    line.push(b'[');
    for (position, item) in items.enumerate() {
        if position > 0 {
            line.push(b',');
        }
        write(line, item);
    }
    line.push(b']');
}
