//! The state path's first phase: sources are asked for the state of their environment.

use super::messages::Answer;
use super::phase::{Site, Way};
use crate::packs::{end_line, list_of};
use crate::rows::error::ReportedError;
use crate::rows::pack::Asked;
use crate::rows::row::Value;
use crate::shard::{Shard, keep};
use crate::values::fault::Fault;
use crate::values::numbers::write_u64;
use crate::values::packed;
use crate::values::reply::Member;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::rc::Rc;

impl Shard {
    /// Asks those sources that are copied by their state and were not asked yet.
    pub(super) fn ask_for_values(&mut self) {
        let Some(phase) = &mut self.branches.phase else {
            return;
        };
        let mut rows: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut slots = Vec::new();
        for origin in &mut phase.origins {
            if origin.way != Way::State || origin.refused || origin.value.is_some() || origin.value_asked {
                continue;
            }
            origin.value_asked = true;
            match origin.site {
                Site::Row(local) => rows.entry(self.rows[local].pack).or_default().push(local),
                Site::State(slot) => slots.push(slot),
            }
        }
        for (number, mut rows) in rows {
            rows.sort_unstable();
            self.ask_rows_for_values(number, rows);
        }
        for slot in slots {
            if let (Some(id), Some(key)) = (self.next_request(Site::State(slot), Asked::GetState), self.state_key(slot))
            {
                self.send_to_copy(key, format!("{{\"id\":{id},\"op\":\"get_state\"}}\n").as_bytes());
            }
        }
    }

    fn ask_rows_for_values(&mut self, number: usize, rows: Vec<usize>) {
        let first = self.packs[number].rows.start;
        let Some(id) = self.next_request(Site::Row(first), Asked::GetState) else {
            return;
        };
        let mut line = format!("{{\"id\":{id},\"op\":\"get_state\"").into_bytes();
        let pack = &mut self.packs[number];
        match &mut pack.packed {
            Some(packed) => {
                line.extend_from_slice(b",\"rows\":");
                list_of(&mut line, rows.iter(), |line, local| write_u64(line, (local - first) as u64));
                packed.asked = rows;
                end_line(&mut line, self.settings.deadlines_ms.start);
            }
            None => line.extend_from_slice(b"}\n"),
        }
        self.send_to_pack(number, &line);
    }

    /// The answer of a row's process.
    pub(super) fn take_values(&mut self, number: usize, answer: &Answer<'_>, raw: &[u8]) -> Result<(), Fault> {
        let pack = &mut self.packs[number];
        let first = pack.rows.start;
        let Some(packed) = &mut pack.packed else {
            return self.take_value(Site::Row(first), answer, raw);
        };
        let rows = std::mem::take(&mut packed.asked);
        if let Some(member) = &answer.error {
            let blocker = state_blocker(member);
            rows.iter().for_each(|local| self.note_value(Site::Row(*local), Err(blocker.clone())));
            return Ok(());
        }
        let mut failed: BTreeMap<usize, Json> = BTreeMap::new();
        if let Some(errors) = &answer.errors {
            packed::by_row(errors.text, "errors", |row, (place, found)| {
                let member = Member { text: &errors.text[place], found };
                failed.insert(first.saturating_add(row), state_blocker(&member));
            })?;
        }
        let states = answer.states.ok_or_else(|| missing("states"))?;
        let places = packed::list(states.text, rows.len(), "states")?;
        for (local, place) in rows.into_iter().zip(places) {
            let value = match failed.remove(&local) {
                Some(blocker) => Err(blocker),
                None => Ok(kept(&packed::item(&states.text[place])?, raw)?),
            };
            self.note_value(Site::Row(local), value);
        }
        Ok(())
    }

    /// The answer of a process with one row, or of a state.
    pub(super) fn take_value(&mut self, site: Site, answer: &Answer<'_>, raw: &[u8]) -> Result<(), Fault> {
        let value = match (&answer.error, &answer.state) {
            (Some(error), _) => Err(state_blocker(error)),
            (None, Some(state)) => Ok(kept(state, raw)?),
            (None, None) => return Err(missing("state")),
        };
        self.note_value(site, value);
        Ok(())
    }

    fn note_value(&mut self, site: Site, value: Result<Rc<Value>, Json>) {
        let Some(phase) = &mut self.branches.phase else {
            return;
        };
        let Some(number) = phase.origin_at(site) else {
            return;
        };
        match value {
            Ok(value) => phase.origins[number].value = Some(value),
            Err(blocker) => phase.origins[number].block(blocker),
        }
    }
}

fn kept(member: &Member<'_>, raw: &[u8]) -> Result<Rc<Value>, Fault> {
    let mut value = Value::default();
    keep(&mut value, member, raw)?;
    Ok(Rc::new(value))
}

fn state_blocker(member: &Member<'_>) -> Json {
    let error = ReportedError::parse(member.text);
    let kind = error.exception_type.or(error.kind).unwrap_or_else(|| "error".to_owned());
    json!({"state": format!("{kind}: {}", error.message.unwrap_or_default())})
}

fn missing(name: &str) -> Fault {
    Fault::new(format!("no \"{name}\" in the answer to get_state"))
}
