//! The state path's second phase: targets are given the states of their sources.

use super::messages::{self, Answer};
use super::phase::Site;
use crate::packs::{end_line, has_failed, list_of};
use crate::rows::error::ReportedError;
use crate::rows::pack::{Asked, Life};
use crate::rows::row::{NEVER, Task, Value};
use crate::shard::Shard;
use crate::system;
use crate::values::fault::Fault;
use crate::values::numbers::write_u64;
use crate::values::packed;
use serde_json::Value as Json;
use std::rc::Rc;

impl Shard {
    /// Gives a row its state, once it has a process.
    pub(super) fn restore_row(&mut self, local: usize) {
        let number = self.rows[local].pack;
        if self.packs[number].life == Life::Ready {
            return self.set_state(local);
        }
        let deadline_us = system::now_us() + self.settings.deadlines_ms.start * 1000;
        let row = &mut self.rows[local];
        row.task = Task::AwaitRestore;
        row.process_deadline_us = deadline_us;
        self.note_deadline(deadline_us);
        match self.packs[number].life {
            Life::Lost => self.replace(number),
            Life::Queued { .. } => self.hurry_start(number),
            _ => {}
        }
    }

    /// Sends the row's process the state, or queues it where rows are asked together.
    pub(crate) fn set_state(&mut self, local: usize) {
        let row = &mut self.rows[local];
        row.process_deadline_us = NEVER;
        row.task = Task::Restore;
        let number = row.pack;
        if let Some(packed) = &mut self.packs[number].packed {
            return packed.restores.push(local);
        }
        let Some((value, reseed)) = self.state_for(local) else {
            return;
        };
        let mut line = std::mem::take(&mut self.line);
        self.begin_line(number, &mut line);
        line.extend_from_slice(b",\"op\":\"set_state\",\"state\":");
        line.extend_from_slice(&value.text);
        line.extend_from_slice(b",\"reseed\":");
        write_seed(&mut line, reseed);
        line.extend_from_slice(b"}\n");
        self.ask_branching(number, &line);
        self.line = line;
    }

    /// Sends states to the rows that were taken from the queue.
    pub(crate) fn ask_restores(&mut self, number: usize) {
        let mut line = std::mem::take(&mut self.line);
        if let Some(packed) = &mut self.packs[number].packed {
            packed.asked.sort_unstable();
        }
        let rows = self.begin_packed_line(number, b"set_state", &mut line);
        let states: Vec<_> = rows.iter().filter_map(|local| self.state_for(*local)).collect();
        line.extend_from_slice(b",\"states\":");
        list_of(&mut line, states.iter(), |line, (value, _)| line.extend_from_slice(&value.text));
        line.extend_from_slice(b",\"reseeds\":");
        list_of(&mut line, states.iter(), |line, (_, reseed)| write_seed(line, *reseed));
        end_line(&mut line, self.settings.deadlines_ms.reset);
        if let Some(packed) = &mut self.packs[number].packed {
            packed.asked = rows;
        }
        self.ask_branching(number, &line);
        self.line = line;
    }

    fn ask_branching(&mut self, number: usize, line: &[u8]) {
        self.packs[number].life = Life::Branching;
        let deadline_ms = self.settings.deadlines_ms.reset;
        self.ask(number, Asked::SetState, line, deadline_ms);
    }

    fn state_for(&self, local: usize) -> Option<(Rc<Value>, Option<u64>)> {
        let phase = self.branches.phase.as_ref()?;
        let pair = phase.pairs.iter().find(|pair| pair.target == Site::Row(local))?;
        Some((Rc::clone(phase.origins[pair.origin].value.as_ref()?), pair.reseed))
    }

    /// The answer of a process that was given states.
    pub(super) fn state_was_set(&mut self, number: usize, answer: &Answer<'_>) -> Result<(), Fault> {
        let pack = &mut self.packs[number];
        let local = pack.rows.start;
        let rows = match &mut pack.packed {
            Some(packed) => std::mem::take(&mut packed.asked),
            None => vec![local],
        };
        let packed = pack.packed.is_some();
        if let Some(member) = &answer.error {
            if packed {
                self.whole_error(number, Asked::SetState, &rows, member);
                self.ask_waiting(number);
            } else {
                self.fail_pack(number, ReportedError::parse(member.text).into_error("restore"));
            }
            return Ok(());
        }
        if !answer.ok {
            return Err(Fault::new("no \"ok\" in the answer to set_state"));
        }
        let failures = self.failures_of(number, Asked::SetState, &rows, answer.errors)?;
        let reseeded = reseeded(answer, rows.len(), packed)?;
        for (place, (local, names)) in rows.iter().zip(reseeded).enumerate() {
            if !has_failed(&failures, place) {
                self.row_was_restored(*local, names);
            }
        }
        self.fail_rows(number, failures.into_iter().map(|(place, error)| (rows[place], error)).collect());
        self.ask_waiting(number);
        Ok(())
    }

    fn row_was_restored(&mut self, local: usize, names: Option<Vec<String>>) {
        let Some(phase) = &mut self.branches.phase else {
            return;
        };
        let Some(pair) = phase.pairs.iter_mut().find(|pair| pair.target == Site::Row(local)) else {
            return;
        };
        pair.reseeded = pair.reseed.map(|_| names.unwrap_or_default());
        let reseeded = pair.reseed.is_some();
        if let Some(snapshot) = phase.origins[pair.origin].snapshot.as_ref().map(Rc::clone) {
            self.apply_snapshot(local, &snapshot, reseeded);
            self.finish_row(local);
        }
    }
}

/// What an answer says of each of `count` rows.
fn reseeded(answer: &Answer<'_>, count: usize, packed: bool) -> Result<Vec<Option<Vec<String>>>, Fault> {
    let Some(member) = &answer.reseeded else {
        return Ok(vec![None; count]);
    };
    if !packed {
        return Ok(vec![Some(messages::names(member.text)?)]);
    }
    let places = packed::list(member.text, count, "reseeded")?;
    let each = places.into_iter().map(|place| match &member.text[place] {
        b"null" => Ok(None),
        text => messages::names(text).map(Some),
    });
    each.collect()
}

fn write_seed(line: &mut Vec<u8>, seed: Option<u64>) {
    match seed {
        Some(seed) => write_u64(line, seed),
        None => line.extend_from_slice(Json::Null.to_string().as_bytes()),
    }
}
