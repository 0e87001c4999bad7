//! Processes with several rows: one message for those that are asked the same, one answer with their columns.
//! `docs/internals/packing.md` is the contract.

mod answer;
mod ask;
mod calls;
mod count;
mod errors;
mod infos;
mod layout;
mod observations;
mod queue;
mod quiet;
mod resets;
mod steps;
mod whole;

pub(crate) use ask::{end_line, list_of};
pub(crate) use errors::has_failed;
pub(crate) use steps::Outcomes;
