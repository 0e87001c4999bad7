//! Takes a branch request in: which copies it wants, checked before anything is done.

use super::phase::{Origin, Pair, Phase, Site};
use crate::channel::error::RequestError;
use crate::channel::request::{Branch, BranchKind};
use crate::rows::seeds::derived_reseed;
use crate::shard::{Shard, parse};
use serde_json::json;
use std::collections::{HashMap, HashSet};

impl Shard {
    /// Begins the first phase.
    pub(crate) fn begin_branch(&mut self, sequence: u32, head: &[u8]) -> Result<(), RequestError> {
        self.require_layout("branch")?;
        let request: Branch = parse(head)?;
        if let Some(seeds) = request.reseed.as_ref().filter(|seeds| seeds.len() != request.pairs.len()) {
            let (received, expected) = (seeds.len(), request.pairs.len());
            return Err(RequestError::invalid(format!("received {received} seeds for {expected} pairs")));
        }
        let sites = self.sites_of(&request)?;
        let phase = self.phase_of(sequence, &request, &sites);
        self.branches.phase = Some(Box::new(phase));
        self.look_at_origins();
        self.advance_branch();
        Ok(())
    }

    /// The places that the request's numbers mean.
    fn sites_of(&self, request: &Branch) -> Result<Vec<(Site, Site)>, RequestError> {
        let mut targets = HashSet::new();
        let mut sites = Vec::with_capacity(request.pairs.len());
        for (source, target) in &request.pairs {
            let (from, to) = match request.kind {
                BranchKind::Fork => (self.row_site(*source)?, self.row_site(*target)?),
                BranchKind::Save => (self.row_site(*source)?, self.free_slot(*target)?),
                BranchKind::Restore => (self.kept_slot(*source)?, self.row_site(*target)?),
            };
            if !targets.insert(to) {
                return Err(RequestError::invalid(format!("received the target {target} twice, expected each once")));
            }
            sites.push((from, to));
        }
        Ok(sites)
    }

    fn row_site(&self, index: u32) -> Result<Site, RequestError> {
        let (first, count) = (self.settings.first, self.settings.count);
        let local = index.checked_sub(first).filter(|local| *local < count);
        local.map(|local| Site::Row(local as usize)).ok_or_else(|| {
            RequestError::invalid(format!("received the row {index}, expected {first} to {}", first + count - 1))
        })
    }

    fn free_slot(&self, slot: u32) -> Result<Site, RequestError> {
        let states = self.settings.states;
        if slot >= states {
            return Err(RequestError::invalid(format!("received the slot {slot}, expected a number below {states}")));
        }
        if self.branches.states.contains_key(&slot) {
            let message = format!("received the slot {slot}, which holds a state, expected a free one");
            return Err(RequestError::invalid(message).with_hint("drop the state first"));
        }
        Ok(Site::State(slot))
    }

    fn kept_slot(&self, slot: u32) -> Result<Site, RequestError> {
        if self.branches.states.contains_key(&slot) || self.branches.lost.contains_key(&slot) {
            return Ok(Site::State(slot));
        }
        Err(RequestError::invalid(format!("received the slot {slot}, which holds no state, expected one that does"))
            .with_details(json!({"slot": slot})))
    }

    fn phase_of(&self, sequence: u32, request: &Branch, sites: &[(Site, Site)]) -> Phase {
        let mut origins = Vec::new();
        let mut known = HashMap::new();
        let mut pairs = Vec::with_capacity(sites.len());
        for (position, (source, target)) in sites.iter().enumerate() {
            let origin = *known.entry(*source).or_insert_with(|| {
                origins.push(Origin::new(*source));
                origins.len() - 1
            });
            let reseed = self.reseed_of(request, position, *target);
            let pair = Pair {
                origin,
                target: *target,
                reseed,
                asked: None,
                answered: false,
                copy: None,
                held: false,
                died: None,
                reseeded: None,
            };
            pairs.push((position, pair));
        }
        pairs.sort_by_key(|(_, pair)| pair.target);
        let mut order = vec![0; pairs.len()];
        for (place, (position, _)) in pairs.iter().enumerate() {
            order[*position] = place;
        }
        let pairs = pairs.into_iter().map(|(_, pair)| pair).collect();
        Phase { sequence: Some(sequence), unsettled: None, kind: request.kind, origins, pairs, order }
    }

    fn reseed_of(&self, request: &Branch, position: usize, target: Site) -> Option<u64> {
        match target {
            Site::Row(local) if request.reseed_derived => {
                let row = &self.rows[local];
                Some(derived_reseed(self.pool_seed, row.index, row.reseeds))
            }
            Site::Row(_) => request.reseed.as_ref().and_then(|seeds| seeds[position]),
            Site::State(_) => None,
        }
    }
}
