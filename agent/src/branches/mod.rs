//! Copies of live environments: forks onto rows, saved states, and states put back. `docs/internals/branching.md` is the
//! contract.
//!
//! A request goes through two phases. `branch` makes the copies and holds them; nothing of any row or state changes.
//! `settle` lets them take their places, `unsettle` ends them.

mod blockers;
mod check;
mod copies;
mod copy_events;
mod decide;
mod ended;
mod fork_answers;
mod forks;
mod launch;
mod messages;
mod phase;
mod place;
mod remains;
mod request;
mod restore;
mod save;
mod settle;
mod snapshot;
mod states;
mod values;

use crate::rows::error::ErrorKind;
use copies::Copied;
use phase::Phase;
use remains::Remains;
use states::State;
use std::collections::{BTreeMap, HashMap};

/// What a shard has of copies and states.
#[derive(Default)]
pub(crate) struct Branches {
    /// From `branch` to the answer of `settle` or `unsettle`.
    pub(crate) phase: Option<Box<Phase>>,
    /// Processes that are no row's, by a number that is never given twice.
    copies: HashMap<u32, Copied>,
    last_key: u32,
    /// Saved states by their slots.
    states: BTreeMap<u32, State>,
    /// Slots whose states ended by themselves.
    lost: BTreeMap<u32, ErrorKind>,
    /// What was killed and may not be gone yet.
    remains: Remains,
}
