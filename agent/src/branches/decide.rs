//! Whether all copies are there, and what is done when one cannot be made.

use super::phase::{Phase, Site, Way};
use crate::channel::error::RequestError;
use crate::channel::request::BranchKind;
use crate::rows::error::ErrorKind;
use crate::shard::Shard;
use serde_json::json;

/// What all states of a shard may hold that are no processes.
const STATES_LIMIT_BYTES: usize = 1 << 30;

impl Shard {
    /// True while sources are asked for copies.
    pub(crate) fn copies_are_made(&self) -> bool {
        self.branches.phase.as_ref().is_some_and(|phase| phase.is_open())
    }

    /// Everything that follows for a request whose copies are made.
    pub(crate) fn advance_branch(&mut self) {
        if !self.copies_are_made() {
            return;
        }
        self.launch_copies();
        self.judge_origins();
        self.ask_for_values();
        // A source whose fork was refused may have just been asked for its state, or found not to have one.
        self.judge_origins();
        if self.branches.phase.as_ref().is_some_and(|phase| is_decided(phase)) {
            self.answer_branch();
        }
    }

    fn judge_origins(&mut self) {
        let count = self.branches.phase.as_ref().map_or(0, |phase| phase.origins.len());
        for number in 0..count {
            self.judge_origin(number);
        }
    }

    /// A source that cannot fork is asked for its state, if it has one; else it is refused.
    fn judge_origin(&mut self, number: usize) {
        let Some(phase) = &mut self.branches.phase else {
            return;
        };
        let origin = &mut phase.origins[number];
        let site = origin.site;
        if origin.refused || (origin.blockers.is_empty() && !origin.ended) || origin.unanswered > 0 {
            return;
        }
        let (way, ended) = (origin.way, origin.ended);
        for pair in phase.pairs_of(number).collect::<Vec<_>>() {
            self.drop_copy_of(pair);
        }
        let keeps_state = self.process_of(site).is_some_and(|process| process.keeps_state);
        let kind = self.ended_kind(site);
        let Some(phase) = &mut self.branches.phase else {
            return;
        };
        let origin = &mut phase.origins[number];
        if ended {
            origin.blockers = vec![json!({"failed": kind.name()})];
        } else if way == Way::Fork && keeps_state {
            origin.way = Way::State;
            origin.fork_blockers = std::mem::take(&mut origin.blockers);
            return;
        } else {
            let state_blockers = std::mem::take(&mut origin.blockers);
            origin.blockers = std::mem::take(&mut origin.fork_blockers);
            origin.blockers.extend(state_blockers);
        }
        origin.refused = true;
    }

    fn ended_kind(&self, site: Site) -> ErrorKind {
        let kind = match site {
            Site::Row(local) => self.rows[local].error.as_ref().map(|error| error.kind),
            Site::State(slot) => self.branches.lost.get(&slot).copied(),
        };
        kind.unwrap_or(ErrorKind::Crash)
    }

    fn answer_branch(&mut self) {
        let Some(phase) = &mut self.branches.phase else {
            return;
        };
        let unsettled = phase.unsettled.take();
        let Some(sequence) = phase.sequence.take() else {
            return;
        };
        self.lend_states_back();
        match self.verdict(unsettled.is_some()) {
            Ok(head) => self.worker.reply(sequence, head.as_bytes(), []),
            Err(refusal) => {
                self.release_phase();
                self.worker.refuse(sequence, &refusal);
            }
        }
        if let Some(sequence) = unsettled {
            self.worker.reply(sequence, br#"{"ok":true}"#, []);
        }
    }

    fn verdict(&self, unsettled: bool) -> Result<String, RequestError> {
        let Some(phase) = &self.branches.phase else {
            return Ok(json!({"ok": true, "way": []}).to_string());
        };
        if unsettled {
            return Err(RequestError::new("conflict", "received unsettle before the copies were made; none is held"));
        }
        if phase.origins.iter().any(|origin| origin.refused) {
            return Err(self.uncopied(phase));
        }
        if phase.kind == BranchKind::Save {
            self.check_state_bytes(phase)?;
        }
        let way = |place: &usize| phase.origins[phase.pairs[*place].origin].way.name();
        Ok(json!({"ok": true, "way": phase.order.iter().map(way).collect::<Vec<_>>()}).to_string())
    }

    fn check_state_bytes(&self, phase: &Phase) -> Result<(), RequestError> {
        let value = |origin: usize| phase.origins[origin].value.as_ref().map_or(0, |value| value.text.len());
        let asked: usize = phase.pairs.iter().map(|pair| value(pair.origin)).sum();
        let (held, limit) = (self.state_bytes(), STATES_LIMIT_BYTES);
        if held + asked <= limit {
            return Ok(());
        }
        let message =
            format!("the saved states hold {held} bytes; with {asked} more they would pass their limit of {limit}");
        Err(RequestError::new("quota", message)
            .with_hint("drop states that are no longer needed")
            .with_details(json!({"held": held, "lost": 0, "asked": asked, "limit": limit, "unit": "bytes"})))
    }

    /// The memory group of the states is the template's to enter again.
    fn lend_states_back(&mut self) {
        let saves = self.branches.phase.as_ref().is_some_and(|phase| phase.kind == BranchKind::Save);
        if saves && self.settings.states_memory.is_some() {
            let _ = self.isolation.allow_memory_entry(&self.isolation.state_identity(0, 0), None);
        }
    }

    /// Ends what is held.
    pub(super) fn release_phase(&mut self) {
        let count = self.branches.phase.as_ref().map_or(0, |phase| phase.pairs.len());
        for pair in 0..count {
            self.drop_copy_of(pair);
        }
        self.branches.phase = None;
    }
}

/// True once nothing is awaited from any source: each was refused, or all of its copies are there.
fn is_decided(phase: &Phase) -> bool {
    let answered = phase.origins.iter().all(|origin| match origin.way {
        Way::Fork => origin.refused || origin.unanswered == 0,
        Way::State => origin.refused || origin.value.is_some(),
    });
    let held = |origin: usize, held: bool| {
        let origin = &phase.origins[origin];
        held || origin.refused || origin.way == Way::State
    };
    answered && phase.pairs.iter().all(|pair| held(pair.origin, pair.held))
}
