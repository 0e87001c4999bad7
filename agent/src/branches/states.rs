//! Saved states: what is in their slots, and how they end.

use super::copies::Stage;
use super::phase::Site;
use super::snapshot::Snapshot;
use crate::channel::error::RequestError;
use crate::channel::request::DropStates;
use crate::rows::error::RowError;
use crate::rows::row::Value;
use crate::shard::{Shard, parse};
use serde_json::json;
use std::collections::HashMap;
use std::rc::Rc;

/// A saved state.
pub(super) struct State {
    pub(super) snapshot: Rc<Snapshot>,
    pub(super) body: Body,
}

/// What a state is made of.
pub(super) enum Body {
    /// The process of that number.
    Process(u32),
    /// What the environment told, which only an environment reads.
    Bytes(Rc<Value>),
}

impl Shard {
    /// The process of the state in a slot.
    pub(super) fn state_key(&self, slot: u32) -> Option<u32> {
        match self.branches.states.get(&slot)?.body {
            Body::Process(key) => Some(key),
            Body::Bytes(_) => None,
        }
    }

    /// Bytes that the states hold which are no processes.
    pub(super) fn state_bytes(&self) -> usize {
        let bytes = self.branches.states.values().map(|state| match &state.body {
            Body::Process(_) => 0,
            Body::Bytes(value) => value.text.len(),
        });
        bytes.sum()
    }

    /// Ends states, and answers when their processes have ended; an empty slot is no error.
    pub(crate) fn drop_states(&mut self, sequence: u32, head: &[u8]) -> Result<(), RequestError> {
        let request: DropStates = parse(head)?;
        for slot in request.slots {
            self.drop_state(slot);
        }
        self.answer_without_remains(sequence);
        Ok(())
    }

    fn drop_state(&mut self, slot: u32) {
        self.branches.lost.remove(&slot);
        if let Some(State { body: Body::Process(key), .. }) = self.branches.states.remove(&slot) {
            self.discard_copy(key);
        }
    }

    /// A state's process has ended by itself.
    pub(super) fn lose_state(&mut self, slot: u32, error: &RowError) {
        self.branches.states.remove(&slot);
        self.branches.lost.insert(slot, error.kind);
        let event = json!({"event": "state_lost", "slot": slot, "error": error.to_json(false)});
        self.worker.event(event.to_string().as_bytes());
        self.source_ended(Site::State(slot));
    }

    /// The states as the status shows them; `pss` by uid.
    pub(crate) fn states_status(&self, pss: &HashMap<u32, u64>) -> Vec<serde_json::Value> {
        let states = self.branches.states.iter().map(|(slot, state)| match &state.body {
            Body::Process(key) => {
                let copied = self.branches.copies.get(key);
                let share = copied.and_then(|copied| pss.get(&copied.identity.uid));
                let pid = copied.and_then(|copied| copied.process.pid);
                json!({"slot": slot, "pid": pid, "way": "fork", "bytes": 0, "pss_bytes": share})
            }
            Body::Bytes(value) => {
                json!({"slot": slot, "pid": null, "way": "state", "bytes": value.text.len(), "pss_bytes": null})
            }
        });
        states.collect()
    }

    /// The processes of all states, for a sample of their memory: uid, pid, identity.
    pub(crate) fn state_processes(&self) -> Vec<(u32, i32, crate::isolation::Identity)> {
        let kept = self.branches.copies.values().filter(|copied| matches!(copied.stage, Stage::Kept(_)));
        let known = kept.filter_map(|copied| Some((copied.identity.uid, copied.process.pid?, copied.identity.clone())));
        known.collect()
    }
}
