//! What a shard itself knows to stand in the way of a copy, before a source is asked.

use super::phase::{Origin, Site, Way};
use super::states::Body;
use crate::rows::error::ErrorKind;
use crate::rows::pack::Life;
use crate::shard::Shard;
use serde_json::{Value, json};
use std::rc::Rc;

impl Shard {
    /// Looks at every source of the phase: what is known of it, and how it can be copied.
    pub(super) fn look_at_origins(&mut self) {
        let Some(mut phase) = self.branches.phase.take() else {
            return;
        };
        for number in 0..phase.origins.len() {
            let shared = phase.pairs_of(number).find_map(|pair| self.rows_sharing_at(phase.pairs[pair].target));
            let origin = &mut phase.origins[number];
            match origin.site {
                Site::Row(local) => self.look_at_row(origin, local),
                Site::State(slot) => self.look_at_state(origin, slot),
            }
            if origin.refused || origin.way == Way::State {
                continue;
            }
            let own = self.rows_sharing_at(origin.site);
            origin.blockers.extend(self.process_blockers(origin.site));
            if let Some(rows) = own.or(shared) {
                origin.block(json!({"packed": rows}));
            }
        }
        self.look_for_companions(&mut phase.origins);
        self.branches.phase = Some(phase);
    }

    fn look_at_row(&self, origin: &mut Origin, local: usize) {
        let row = &self.rows[local];
        let refusal = match &row.error {
            Some(error) => Some(json!({"failed": error.kind.name()})),
            None if row.fresh || self.packs[row.pack].life != Life::Ready => Some(json!({"unreset": true})),
            None => None,
        };
        match refusal {
            Some(blocker) => {
                origin.block(blocker);
                origin.refused = true;
            }
            None => origin.snapshot = Some(self.snapshot(local)),
        }
    }

    fn look_at_state(&self, origin: &mut Origin, slot: u32) {
        let Some(state) = self.branches.states.get(&slot) else {
            let kind = self.branches.lost.get(&slot).copied().unwrap_or(ErrorKind::Lost);
            origin.block(json!({"failed": kind.name()}));
            origin.refused = true;
            return;
        };
        origin.snapshot = Some(Rc::clone(&state.snapshot));
        if let Body::Bytes(value) = &state.body {
            origin.way = Way::State;
            origin.value = Some(Rc::clone(value));
        }
    }

    /// How many rows the processes of a place have, if more than one.
    fn rows_sharing_at(&self, site: Site) -> Option<u32> {
        match site {
            Site::Row(_) => self.rows_sharing(),
            Site::State(_) => None,
        }
    }

    /// Why a process cannot be asked to fork as it is.
    fn process_blockers(&self, site: Site) -> Option<Value> {
        if !self.settings.branching {
            return Some(json!({"branching": false}));
        }
        if !self.starts.by_fork {
            return Some(json!({"spawned": true}));
        }
        let live = self.process_of(site).is_some_and(|process| process.forks_live);
        let alone = self.rows_sharing_at(site).is_none();
        (alone && !live).then(|| json!({"reason": "the program does not announce the feature fork"}))
    }

    /// A process that runs beside a source is not in its copy. A state has none: its process was alone when it was
    /// made, and has done nothing since.
    fn look_for_companions(&self, origins: &mut [Origin]) {
        let wanted = origins.iter_mut().filter(|origin| origin.way == Way::Fork && origin.blockers.is_empty());
        let rows = wanted.filter(|origin| matches!(origin.site, Site::Row(_)));
        let mut looked: Vec<&mut Origin> = rows.collect();
        let known: Vec<_> = looked
            .iter()
            .filter_map(|origin| Some((self.identity_of(origin.site)?, self.process_of(origin.site)?.pid?)))
            .collect();
        if known.len() != looked.len() {
            return;
        }
        for (origin, mut names) in looked.iter_mut().zip(self.isolation.companions(&known)) {
            let count = names.len();
            if count > 0 {
                names.sort();
                names.dedup();
                origin.block(json!({"processes": count, "names": names}));
            }
        }
    }
}
