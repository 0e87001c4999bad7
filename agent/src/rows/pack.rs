//! A pack: one process and the rows that live in it. What is true of the process is here, what is true of an
//! episode in its rows.

use super::log::Log;
use super::process::Process;
use super::row::NEVER;
use crate::isolation::Identity;
use std::ops::Range;

/// Whether a pack has a process that can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Waits for its turn to start; `dirty`: what is left of the last process has to go first.
    Queued {
        /// Something has to be killed and wiped.
        dirty: bool,
    },
    /// Started, has not said hello.
    Starting,
    /// Asked to fork as it is, or for its environment's state, or given one: what it says is no answer to a batch.
    Branching,
    /// Measured before it is known how many rows a process has; it becomes no row.
    Probe,
    /// Can be asked.
    Ready,
    /// Could not be started three times running.
    Lost,
}

/// What a process was asked for and has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Nothing: it can be asked.
    Nothing,
    /// A step.
    Step,
    /// A reset.
    Reset,
    /// A call.
    Call,
    /// Forks of itself.
    Fork,
    /// Its environment's state.
    GetState,
    /// To take a state.
    SetState,
    /// How long its step takes.
    Measure,
    /// To end.
    Close,
}

impl Asked {
    /// Its name, for errors.
    pub fn op(self) -> &'static str {
        match self {
            Self::Nothing => "idle",
            Self::Step => "step",
            Self::Reset => "reset",
            Self::Call => "call",
            Self::Fork => "fork",
            Self::GetState => "get_state",
            Self::SetState => "restore",
            Self::Measure => "measure",
            Self::Close => "close",
        }
    }
}

/// What is kept for a process that is asked for several rows in one message.
#[derive(Debug, Default)]
pub struct Packed {
    /// Rows of the message that it was sent last, ascending.
    pub asked: Vec<usize>,
    /// Rows that wait to be stepped.
    pub steps: Vec<usize>,
    /// Rows that wait to be reset.
    pub resets: Vec<usize>,
    /// Rows that wait to be called.
    pub calls: Vec<usize>,
    /// The last batch that left nothing behind in its rows; see `packs/quiet.rs`.
    pub quiet_seq: Option<u64>,
    /// True while its rows are stepped without being told so themselves.
    pub asleep: bool,
    /// Of a quiet process: rows whose episode has ended.
    pub ended: Vec<usize>,
    /// Rows that wait for a state of another time.
    pub restores: Vec<usize>,
    /// Steps of all its rows together; the steps of a row's episode are counted from it.
    pub stepped: u64,
}

/// One process and its rows.
pub struct Pack {
    /// Local numbers of its rows.
    pub rows: Range<usize>,
    /// Its uid, folders and limits.
    pub identity: Identity,
    /// Raised with every process, so that events of the last one are told apart.
    pub epoch: u32,
    /// Whether it can be asked.
    pub life: Life,
    /// Its process, unless it waits for one.
    pub process: Option<Process>,
    /// What it was asked for last, until it answers.
    pub asked: Asked,
    /// Present when it is asked in the messages of several rows: it has them, or it is vectorised.
    pub packed: Option<Box<Packed>>,
    /// Number of its last request.
    pub last_id: u64,
    /// When its last request was written.
    pub sent_us: u64,
    /// How long the answer may take.
    pub deadline_ms: u64,
    /// When waiting ends: for hello, for an answer, or for the exit status after the end of its stream.
    pub deadline_us: u64,
    /// True after the end of its stream, while its exit status is awaited.
    pub ending: bool,
    /// Answers since the last request that nobody waits for.
    pub late: u32,
    /// Failed starts running.
    pub failed_starts: u8,
    /// Processes that were replaced.
    pub replacements: u64,
    /// Its standard error.
    pub log: Log,
}

impl Pack {
    /// A pack without a process.
    pub fn new(rows: Range<usize>, identity: Identity) -> Self {
        Self {
            rows,
            identity,
            epoch: 0,
            life: Life::Queued { dirty: false },
            process: None,
            asked: Asked::Nothing,
            packed: None,
            last_id: 0,
            sent_us: 0,
            deadline_ms: 0,
            deadline_us: NEVER,
            ending: false,
            late: 0,
            failed_starts: 0,
            replacements: 0,
            log: Log::default(),
        }
    }

    /// True when it has more rows than one.
    pub fn is_shared(&self) -> bool {
        self.rows.len() > 1
    }

    /// The name of what it is doing, for errors.
    pub fn op(&self) -> &'static str {
        if self.life == Life::Starting { "hello" } else { self.asked.op() }
    }
}
