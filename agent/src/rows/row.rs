//! The state of one row: its episode, and what the batch wants of it. Its process is its pack's.

use super::error::RowError;
use crate::values::scan::Found;
use std::ops::Range;

/// Why a reset is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A reset request, the first reset included.
    Request,
    /// The end of an episode, in the same step.
    SameStep,
    /// A step that resets instead.
    NextStep,
}

/// A reset that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResetTask {
    /// Its seed.
    pub seed: Option<u64>,
    /// Where its options stand in the batch's body.
    pub options: Option<Range<usize>>,
    /// Why.
    pub purpose: Purpose,
    /// A new environment object first, where the process stays.
    pub hard: bool,
    /// True once an exception was answered with a new process.
    pub retried: bool,
    /// Its deadline, once its clock runs.
    pub deadline_us: Option<u64>,
}

/// What the batch waits for from this row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Nothing.
    None,
    /// The answer of a step.
    Step,
    /// The answer of a reset.
    Reset(ResetTask),
    /// A process that can be reset.
    AwaitProcess(ResetTask),
    /// The answer of a call.
    Call,
    /// To become a copy.
    Restore,
    /// A process that can be given a state.
    AwaitRestore,
}

impl Task {
    /// True for the reset after an episode's end, in the same step.
    pub fn follows_an_end(&self) -> bool {
        matches!(self, Self::Reset(task) | Self::AwaitProcess(task) if task.purpose == Purpose::SameStep)
    }
}

/// No deadline.
pub const NEVER: u64 = u64::MAX;

/// One row.
pub struct Row {
    /// Global index.
    pub index: u32,
    /// The pack that it is in.
    pub pack: usize,
    /// Why it failed, until it is reset.
    pub error: Option<RowError>,
    /// True once a batch has shown the error.
    pub error_shown: bool,
    /// What the batch waits for.
    pub task: Task,
    /// Its place in the batch.
    pub slot: usize,
    /// When waiting for a process ends.
    pub process_deadline_us: u64,
    /// Resets since the pool's seed was set.
    pub episode: u64,
    /// True until it was reset for the first time in its process.
    pub fresh: bool,
    /// True after the end of an episode, until a reset.
    pub ended: bool,
    /// Steps of the episode; of a row of a packed process, what has to be added to the steps of all its rows.
    pub steps: u64,
    /// The seed that its last reset was given.
    pub seed: Option<u64>,
    /// How often it was reseeded as a copy since the pool's seed was set.
    pub reseeds: u64,
    /// Its last good observation, of a list pool or before the layout is known.
    pub observation: Value,
    /// True once there is a good observation.
    pub observed: bool,
    /// Its info in this batch.
    pub info: Value,
    /// The info of its last reset.
    pub reset_info: Value,
    /// Its result in this batch.
    pub result: Value,
    /// Observation and info of the episode that just ended.
    pub last_of_episode: Option<Box<(Value, Value)>>,
}

/// Checked text of a value; empty means the default (`{}` or null).
#[derive(Debug, Clone, Default)]
pub struct Value {
    /// The text.
    pub text: Vec<u8>,
    /// True when it holds arrays.
    pub arrays: bool,
}

impl Value {
    /// Becomes the default again; keeps its memory.
    #[inline]
    pub fn clear(&mut self) {
        self.text.clear();
        self.arrays = false;
    }

    /// Notes what a scan found.
    pub fn note(&mut self, found: Found) {
        self.arrays |= found.arrays;
    }
}

impl Row {
    /// A row that was never reset.
    pub fn new(index: u32, pack: usize, episode: u64) -> Self {
        Self {
            index,
            pack,
            error: None,
            error_shown: false,
            task: Task::None,
            slot: 0,
            process_deadline_us: NEVER,
            episode,
            fresh: true,
            ended: false,
            steps: 0,
            seed: None,
            reseeds: 0,
            observation: Value::default(),
            observed: false,
            info: Value::default(),
            reset_info: Value::default(),
            result: Value::default(),
            last_of_episode: None,
        }
    }

    /// The name of what it waits for, for errors.
    pub fn op(&self) -> &'static str {
        match self.task {
            Task::Step => "step",
            Task::Reset(_) | Task::AwaitProcess(_) => "reset",
            Task::Call => "call",
            Task::Restore | Task::AwaitRestore => "restore",
            Task::None => "idle",
        }
    }
}
