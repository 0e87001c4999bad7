//! Held copies become saved states.

use super::copies::Stage;
use super::phase::{Phase, Site};
use super::states::{Body, State};
use crate::batches::kept::Kept;
use crate::channel::error::RequestError;
use crate::shard::Shard;
use serde_json::{Value, json};
use std::rc::Rc;

impl Shard {
    /// Answers a settle whose copies are to be states: all of them, or none.
    pub(super) fn settle_states(&mut self, sequence: u32, seq: u64) {
        let head = match self.died_copy() {
            Some(error) => {
                self.release_phase();
                error.head()
            }
            None => {
                let states = self.keep_states();
                json!({"ok": true, "seq": seq, "states": states}).to_string().into_bytes()
            }
        };
        self.last_seq = seq;
        self.worker.reply(sequence, &head, []);
        self.kept = Some(Kept { seq, head, body: Vec::new() });
    }

    fn died_copy(&self) -> Option<RequestError> {
        let phase = self.branches.phase.as_ref()?;
        let (pair, error) = phase.pairs.iter().find_map(|pair| Some((pair, pair.died.as_ref()?)))?;
        let row = phase.origins[pair.origin].snapshot.as_ref().map(|snapshot| snapshot.row);
        let name = row.map_or_else(String::new, |row| format!(" of row {row}"));
        let message = format!("the copy{name} ended before it was a state: {} ({})", error.message, error.kind.name());
        let details = json!({"row": row, "error": error.to_json(false)});
        Some(RequestError::new("agent_failed", message).with_hint("save again").with_details(details))
    }

    fn keep_states(&mut self) -> Vec<Value> {
        let Some(phase) = self.branches.phase.take() else {
            return Vec::new();
        };
        let Phase { origins, pairs, .. } = *phase;
        let mut told = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let origin = &origins[pair.origin];
            let (Site::State(slot), Some(snapshot)) = (pair.target, &origin.snapshot) else {
                continue;
            };
            told.push(json!({
                "slot": slot, "row": snapshot.row, "episode": snapshot.episode, "step": snapshot.steps,
                "seed": snapshot.seed, "pending": snapshot.ended, "way": origin.way.name(),
            }));
            let body = match (pair.copy, &origin.value) {
                (Some(key), _) => Body::Process(key),
                (None, Some(value)) => Body::Bytes(Rc::clone(value)),
                (None, None) => continue,
            };
            if let Body::Process(key) = body
                && let Some(copied) = self.branches.copies.get_mut(&key)
            {
                copied.stage = Stage::Kept(slot);
            }
            self.branches.lost.remove(&slot);
            self.branches.states.insert(slot, State { snapshot: Rc::clone(snapshot), body });
        }
        told
    }
}
