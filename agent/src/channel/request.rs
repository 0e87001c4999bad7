//! The heads of requests.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is common to all heads; the rest is read once `op` is known.
#[derive(Debug, Deserialize)]
pub struct Operation {
    /// Name of the request.
    pub op: String,
}

/// How a shard's environments come into being.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Fork if the program can, else spawn.
    Auto,
    /// Fork, or fail.
    Fork,
    /// One ordinary start each.
    Spawn,
}

/// What a null seed becomes.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Seeds {
    /// A seed derived from the pool's, the row and the episode.
    Derived,
    /// Null, except for the first reset of a process.
    Continue,
}

/// What happens to a row whose episode ended.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Autoreset {
    /// Reset in the same step.
    SameStep,
    /// The next step resets.
    NextStep,
}

impl Autoreset {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::SameStep => "same_step",
            Self::NextStep => "next_step",
        }
    }
}

/// What a pool asks for at the end of an episode.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum AutoresetWish {
    /// As [`Autoreset::SameStep`].
    SameStep,
    /// As [`Autoreset::NextStep`].
    NextStep,
    /// The environment's own mode if it is vectorised, else in the same step.
    Auto,
}

/// How a reply's columns are written.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// JSON lists.
    Json,
    /// Buffers.
    Binary,
}

/// Milliseconds that each kind of request may take.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Deadlines {
    /// From start to hello.
    pub start: u64,
    /// A reset.
    pub reset: u64,
    /// A step.
    pub step: u64,
    /// A call, unless it says otherwise.
    pub call: u64,
    /// Between close and the kill.
    pub close: u64,
}

/// `start`
#[derive(Debug, Clone, Deserialize)]
pub struct Start {
    /// Rows of the pool.
    pub n: u32,
    /// First row of this shard.
    pub first: u32,
    /// Rows of this shard.
    pub count: u32,
    /// The program.
    pub argv: Vec<String>,
    /// Where it starts.
    pub cwd: String,
    /// Its variables.
    pub environ: BTreeMap<String, String>,
    /// False: plain processes.
    pub isolated: bool,
    /// How rows start.
    pub way: Way,
    /// Ordinary starts at once.
    pub spawn_parallel: usize,
    /// Process i of the pool runs as uid `base_uid + i`.
    pub base_uid: u32,
    /// Uid of the template.
    pub template_uid: u32,
    /// Quota of a row's files.
    pub workspace_bytes: u64,
    /// Files of a row.
    pub workspace_inodes: u64,
    /// Memory of a row.
    pub memory_bytes: u64,
    /// What memory and files of a process of several rows never pass.
    #[serde(default)]
    pub shard_memory_bytes: Option<u64>,
    /// Folder of the rows' memory cgroups.
    #[serde(default)]
    pub memory_dir: Option<PathBuf>,
    /// Whether the agent makes the groups in `memory_dir` itself, in a kernel of the sandbox's own.
    #[serde(default)]
    pub own_groups: bool,
    /// Processes of a row.
    pub processes: u64,
    /// Folder of the workspaces, only without isolation.
    #[serde(default)]
    pub workspaces: Option<PathBuf>,
    /// The pool's seed P.
    pub seed: u64,
    /// What a null seed becomes.
    pub seeds: Seeds,
    /// What happens at the end of an episode.
    #[serde(default)]
    pub autoreset: Option<AutoresetWish>,
    /// Rows of a process; null: told later by `pack`.
    #[serde(default = "one_row")]
    pub rows_per_process: Option<u32>,
    /// Whether the step of a probe is measured first.
    #[serde(default)]
    pub measure: bool,
    /// Episode of the first reset.
    #[serde(default)]
    pub episode_offset: u64,
    /// Deadlines.
    pub deadlines_ms: Deadlines,
    /// Rows dispatched at once.
    #[serde(default)]
    pub in_flight: Option<usize>,
    /// Whether the start resets.
    pub first_reset: bool,
    /// Whether live rows may fork.
    pub branching: bool,
    /// Saved states that there can be.
    #[serde(default = "many_states")]
    pub states: u32,
    /// Memory cgroup of the saved states.
    #[serde(default)]
    pub states_memory: Option<PathBuf>,
    /// Files of a row that a copy of it may have.
    #[serde(default)]
    pub branch_workspace_bytes: Option<u64>,
    /// Longest line with its raw bytes.
    pub max_message_bytes: usize,
    /// A row's share of a batch.
    pub max_row_bytes: usize,
}

fn one_row() -> Option<u32> {
    Some(1)
}

fn many_states() -> u32 {
    1024
}

/// `pack`
#[derive(Debug, Deserialize)]
pub struct Packing {
    /// Rows of a process.
    pub rows_per_process: u32,
}

/// `layout`
#[derive(Debug, Deserialize)]
pub struct FixLayout {
    /// The pool's layout.
    pub layout: Value,
}

/// What every batch says.
#[derive(Debug, Deserialize)]
pub struct Batch {
    /// The pool's batch number.
    pub seq: u64,
    /// How the reply is written.
    pub encoding: Encoding,
    /// Selected global rows, ascending; null: all.
    #[serde(default)]
    pub rows: Option<Vec<u32>>,
    /// Selected rows of the request before this shard's.
    #[serde(default)]
    pub offset: usize,
}

/// `send`; its other members are those of its kind.
#[derive(Debug, Deserialize)]
pub struct Send {
    /// What its rows are asked for.
    pub kind: SendKind,
    /// How the results are written.
    pub encoding: Encoding,
    /// Selected global rows, ascending; null: all.
    #[serde(default)]
    pub rows: Option<Vec<u32>>,
    /// Selected rows of the client's message before this shard's.
    #[serde(default)]
    pub offset: usize,
}

/// What `send` can ask for.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum SendKind {
    /// A step.
    Step,
    /// A reset.
    Reset,
}

/// `reset`
#[derive(Debug, Deserialize)]
pub struct Reset {
    /// A seed or null for each selected row.
    #[serde(default)]
    pub seeds: Option<Vec<Option<u64>>>,
    /// Kill, wipe and start anew first.
    #[serde(default)]
    pub hard: bool,
    /// A new pool seed.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Selected rows of the whole request.
    #[serde(default)]
    pub total: Option<usize>,
}

/// `step`
#[derive(Debug, Deserialize)]
pub struct Step {
    /// Where the actions are.
    pub actions: Actions,
}

/// How a step's actions are written.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Actions {
    /// `actions` of the body.
    Json,
    /// The body is one buffer.
    Array {
        /// Element type.
        dtype: String,
        /// Shape of one action.
        shape: Vec<usize>,
    },
}

/// `call`
#[derive(Debug, Deserialize)]
pub struct Call {
    /// Milliseconds for each row.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    /// Which request the row gets.
    pub call: CallKind,
    /// The function or attribute.
    pub name: String,
    /// `set`: one value a row.
    #[serde(default)]
    pub per_row: bool,
    /// Selected rows of the whole request.
    #[serde(default)]
    pub total: Option<usize>,
}

/// The requests that `call` can make.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum CallKind {
    /// Calls a function.
    Call,
    /// Reads an attribute.
    Get,
    /// Writes an attribute.
    Set,
    /// Asks for an attribute.
    Has,
    /// Asks for an attribute through the wrappers.
    Wrapped,
}

impl CallKind {
    /// The `op` of the environment's request.
    pub fn op(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Get => "get",
            Self::Set => "set",
            Self::Has => "has",
            Self::Wrapped => "wrapped",
        }
    }
}

/// `branch`
#[derive(Debug, Deserialize)]
pub struct Branch {
    /// What is copied where.
    pub kind: BranchKind,
    /// Source and target of each copy: rows, or slots of saved states.
    pub pairs: Vec<(u32, u32)>,
    /// A seed or null for each pair.
    #[serde(default)]
    pub reseed: Option<Vec<Option<u64>>>,
    /// Whether each copy gets a seed derived from the pool's.
    #[serde(default)]
    pub reseed_derived: bool,
}

/// What `branch` can do.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum BranchKind {
    /// Rows become copies of rows.
    Fork,
    /// States become copies of rows.
    Save,
    /// Rows become copies of states.
    Restore,
}

/// `settle`
#[derive(Debug, Deserialize)]
pub struct Settle {
    /// The pool's batch number.
    pub seq: u64,
    /// How the reply is written.
    pub encoding: Encoding,
}

/// `drop`
#[derive(Debug, Deserialize)]
pub struct DropStates {
    /// Slots of states that end.
    pub slots: Vec<u32>,
}

/// `observe`
#[derive(Debug, Deserialize)]
pub struct Observe {
    /// How the reply is written.
    pub encoding: Encoding,
}

/// `status`
#[derive(Debug, Deserialize)]
pub struct Status {
    /// Whether PSS is sampled.
    #[serde(default)]
    pub memory: bool,
}

/// `logs`
#[derive(Debug, Deserialize)]
pub struct Logs {
    /// Global row.
    pub row: u32,
}
