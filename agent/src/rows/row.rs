//! The state of one row.

use super::error::RowError;
use super::log::Log;
use super::process::Process;
use crate::isolation::Identity;
use crate::values::scan::Found;
use std::ops::Range;

/// Whether a row has a process that can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Waits for its turn to start; `dirty`: what is left of the last process has to go first.
    Queued {
        /// Something has to be killed and wiped.
        dirty: bool,
    },
    /// Started, has not said hello.
    Starting,
    /// Can be asked.
    Ready,
    /// Could not be started three times running.
    Lost,
}

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
    /// The answer of a close.
    Close,
}

/// No deadline.
pub const NEVER: u64 = u64::MAX;

/// One row.
pub struct Row {
    /// Global index.
    pub index: u32,
    /// Its uid, folders and limits.
    pub identity: Identity,
    /// Raised with every process, so that events of the last one are told apart.
    pub epoch: u32,
    /// Whether it can be asked.
    pub life: Life,
    /// Its process, unless it waits for one.
    pub process: Option<Process>,
    /// Why it failed, until it is reset.
    pub error: Option<RowError>,
    /// True once a batch has shown the error.
    pub error_shown: bool,
    /// What the batch waits for.
    pub task: Task,
    /// Its place in the batch.
    pub slot: usize,
    /// Number of its last request; the answer to it is awaited while there is a task.
    pub last_id: u64,
    /// When its last request was written.
    pub sent_us: u64,
    /// When waiting ends: for hello, for an answer, or for the exit status after the end of its stream.
    pub deadline_us: u64,
    /// When waiting for a process ends.
    pub process_deadline_us: u64,
    /// True after the end of its stream, while its exit status is awaited.
    pub ending: bool,
    /// Answers since the last request that nobody waits for.
    pub late: u32,
    /// Resets since the pool's seed was set.
    pub episode: u64,
    /// True until the process was reset for the first time.
    pub fresh: bool,
    /// True after the end of an episode that the next step resets.
    pub ended: bool,
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
    /// Failed starts running.
    pub failed_starts: u8,
    /// Processes that were replaced.
    pub replacements: u64,
    /// Its standard error.
    pub log: Log,
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
    /// A row without a process.
    pub fn new(identity: Identity, episode: u64) -> Self {
        Self {
            index: identity.row,
            identity,
            epoch: 0,
            life: Life::Queued { dirty: false },
            process: None,
            error: None,
            error_shown: false,
            task: Task::None,
            slot: 0,
            last_id: 0,
            sent_us: 0,
            deadline_us: NEVER,
            process_deadline_us: NEVER,
            ending: false,
            late: 0,
            episode,
            fresh: true,
            ended: false,
            observation: Value::default(),
            observed: false,
            info: Value::default(),
            reset_info: Value::default(),
            result: Value::default(),
            last_of_episode: None,
            failed_starts: 0,
            replacements: 0,
            log: Log::default(),
        }
    }

    /// The name of what it is doing, for errors.
    pub fn op(&self) -> &'static str {
        match self.task {
            Task::Step => "step",
            Task::Reset(_) | Task::AwaitProcess(_) => "reset",
            Task::Call => "call",
            Task::Close => "close",
            Task::None if self.life == Life::Starting => "hello",
            Task::None => "idle",
        }
    }
}
