//! The batch that runs.

use super::outcomes::Outcomes;
use crate::channel::request::{CallKind, Encoding};
use crate::values::action::ActionArray;
use std::ops::Range;

/// What every selected row is asked for.
#[derive(Debug)]
pub(crate) enum Work {
    /// A step.
    Step(Actions),
    /// A reset.
    Reset {
        /// A seed for each selected row, where one was given.
        seeds: Option<Vec<Option<u64>>>,
        /// Options for each selected row, or one for all.
        options: Spread,
        /// A new process first.
        hard: bool,
    },
    /// A call.
    Call {
        kind: CallKind,
        /// The members after `op`, for all rows.
        members: Vec<u8>,
        /// A value for each row, or one for all, of `set`.
        values: Spread,
        deadline_ms: u64,
    },
    /// To become the copies that are held for them.
    Settle,
}

/// One text for all rows, or one each.
#[derive(Debug)]
pub(crate) enum Spread {
    /// None was given.
    Nothing,
    /// For all.
    One(Range<usize>),
    /// For each selected row.
    Each(Vec<Range<usize>>),
}

impl Spread {
    /// True for one each.
    pub(crate) fn is_each(&self) -> bool {
        matches!(self, Self::Each(_))
    }

    /// Where the text of a selected row stands.
    pub(crate) fn of(&self, slot: usize) -> Option<Range<usize>> {
        match self {
            Self::Nothing => None,
            Self::One(place) => Some(place.clone()),
            Self::Each(places) => Some(places[slot].clone()),
        }
    }
}

/// Where the actions are.
#[derive(Debug)]
pub(crate) enum Actions {
    /// Texts in the body.
    Json(Vec<Range<usize>>),
    /// One buffer, the body.
    Array(ActionArray),
}

/// Rows, and what they are asked for.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) encoding: Encoding,
    pub(crate) work: Work,
    /// Selected local rows, ascending.
    pub(crate) rows: Vec<usize>,
    /// The client's bytes that ranges point into.
    pub(crate) body: Vec<u8>,
}

/// A batch from its request to its reply.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Number of the frame.
    pub(crate) sequence: u32,
    /// Number of the batch.
    pub(crate) seq: u64,
    pub(crate) message: Message,
    /// Rows that were dispatched.
    pub(crate) next: usize,
    /// Rows that are finished.
    pub(crate) done: usize,
    pub(crate) began_us: u64,
    pub(crate) outcomes: Outcomes,
    /// Late replies before it.
    pub(crate) late_before: u64,
}

impl Batch {
    /// A batch of nothing done yet.
    pub(crate) fn new(sequence: u32, seq: u64, message: Message) -> Self {
        let outcomes = Outcomes::new(message.rows.len(), message.is_step());
        Self { sequence, seq, message, next: 0, done: 0, began_us: crate::system::now_us(), outcomes, late_before: 0 }
    }

    /// True once every row is finished.
    pub(crate) fn is_done(&self) -> bool {
        self.done == self.message.rows.len()
    }
}

impl Message {
    /// True when its rows have rewards.
    pub(crate) fn is_step(&self) -> bool {
        matches!(self.work, Work::Step(_))
    }
}
