//! What one request copies, from its first phase to its second.

use super::snapshot::Snapshot;
use crate::channel::request::BranchKind;
use crate::rows::error::RowError;
use crate::rows::row::Value;
use crate::starts::template::ForkLine;
use serde_json::Value as Json;
use std::collections::VecDeque;
use std::rc::Rc;

/// A place that a copy comes from or goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Site {
    /// A row, by its local number.
    Row(usize),
    /// A saved state, by its slot.
    State(u32),
}

/// How a copy is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Its process forks as it is.
    Fork,
    /// The environment's state is asked for.
    State,
}

impl Way {
    /// Its name on the wire.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::State => "state",
        }
    }
}

/// One source.
pub(super) struct Origin {
    pub(super) site: Site,
    /// What is known of its episode; none where there is nothing to copy.
    pub(super) snapshot: Option<Rc<Snapshot>>,
    pub(super) way: Way,
    /// What stands in the way.
    pub(super) blockers: Vec<Json>,
    /// What stood in the way of a fork, where the state was asked for instead.
    pub(super) fork_blockers: Vec<Json>,
    /// Fork lines on their way.
    pub(super) unsent: VecDeque<ForkLine>,
    /// Forks that it was asked for and has not answered.
    pub(super) unanswered: usize,
    /// The environment's state.
    pub(super) value: Option<Rc<Value>>,
    pub(super) value_asked: bool,
    /// True once its process has ended meanwhile.
    pub(super) ended: bool,
    /// True once it is certain that it cannot be copied.
    pub(super) refused: bool,
}

/// One copy.
pub(super) struct Pair {
    /// Position of its source.
    pub(super) origin: usize,
    pub(super) target: Site,
    pub(super) reseed: Option<u64>,
    /// Number of the fork request, once it was asked for.
    pub(super) asked: Option<u64>,
    /// True once the source has answered that.
    pub(super) answered: bool,
    /// The copied process, once there is one.
    pub(super) copy: Option<u32>,
    /// True once the copy has said hello.
    pub(super) held: bool,
    /// How the held copy ended.
    pub(super) died: Option<RowError>,
    /// What was reseeded in it.
    pub(super) reseeded: Option<Vec<String>>,
}

/// The request.
pub(crate) struct Phase {
    /// Number of the frame, until it is answered: then all copies are held.
    pub(super) sequence: Option<u32>,
    /// Number of the frame that gave it up meanwhile.
    pub(super) unsettled: Option<u32>,
    pub(super) kind: BranchKind,
    pub(super) origins: Vec<Origin>,
    /// Ascending by target.
    pub(super) pairs: Vec<Pair>,
    /// Positions of the pairs in the order of the request.
    pub(super) order: Vec<usize>,
}

impl Phase {
    /// True while copies are made.
    pub(super) fn is_open(&self) -> bool {
        self.sequence.is_some()
    }

    /// Pairs of a source.
    pub(super) fn pairs_of(&self, origin: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.pairs.len()).filter(move |pair| self.pairs[*pair].origin == origin)
    }

    /// The source at that place.
    pub(super) fn origin_at(&self, site: Site) -> Option<usize> {
        self.origins.iter().position(|origin| origin.site == site)
    }

    /// The copy of that number.
    pub(super) fn pair_with(&self, key: u32) -> Option<usize> {
        self.pairs.iter().position(|pair| pair.copy == Some(key))
    }

    /// Copies that were asked for and have not said hello.
    pub(super) fn starting(&self) -> impl Iterator<Item = &Pair> {
        self.pairs.iter().filter(|pair| pair.copy.is_some() && !pair.held)
    }
}

impl Origin {
    /// A source that nothing is known of yet.
    pub(super) fn new(site: Site) -> Self {
        Self {
            site,
            snapshot: None,
            way: Way::Fork,
            blockers: Vec::new(),
            fork_blockers: Vec::new(),
            unsent: VecDeque::new(),
            unanswered: 0,
            value: None,
            value_asked: false,
            ended: false,
            refused: false,
        }
    }

    /// Notes what stands in the way, once.
    pub(super) fn block(&mut self, blocker: Json) {
        if !self.blockers.contains(&blocker) {
            self.blockers.push(blocker);
        }
    }
}
