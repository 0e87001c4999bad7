//! A shard: its rows, its template, the batch that runs, and the loop that moves them all.

mod answers;
mod close;
mod deadlines;
mod exits;
mod fail;
mod layout;
mod lines;
mod logs;
mod observe;
mod requests;
mod run;
mod status;
mod values;
mod watch;
mod worker;

use crate::batches::batch::Batch;
use crate::batches::kept::Kept;
use crate::branches::Branches;
use crate::channel::request::{Autoreset, AutoresetWish, Start};
use crate::event_loop::{Poller, Token};
use crate::isolation::{Exit, Isolation, Program};
use crate::packs::Outcomes;
use crate::rows::pack::Pack;
use crate::rows::row::{Row, Value};
use crate::rows::vector::Vector;
use crate::starts::config::Config;
use crate::starts::creation::Creation;
use crate::starts::queue::Starts;
use crate::starts::template::Template;
use crate::stream::Stream;
use crate::values::layout::Layout;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

pub(crate) use requests::parse;
pub use run::serve;
pub(crate) use status::PendingStatus;
pub(crate) use values::{add_member, keep, keep_info};
pub(crate) use worker::Worker;

/// Bytes that one process may say in one turn of the loop.
pub(crate) const TURN_BYTES: usize = 256 << 10;

/// Who a process is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The process of a pack.
    Pack(usize),
    /// A copy that has not taken its place, or a saved state.
    Copy(u32),
    /// The template.
    Template,
}

/// Figures over the shard's life.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) late_replies: u64,
    pub(crate) replacements: u64,
    pub(crate) stragglers: u64,
}

/// Everything of one shard. Its parts are in `starts`, `batches` and the files beside this one.
pub struct Shard {
    pub(crate) worker: Worker,
    pub(crate) poller: Poller,
    pub(crate) settings: Start,
    pub(crate) isolation: Isolation,
    pub(crate) program: Program,
    pub(crate) config: Config,
    pub(crate) rows: Vec<Row>,
    /// The processes, each with a range of the rows.
    pub(crate) packs: Vec<Pack>,
    /// Processes that have not ended, by pid.
    pub(crate) owners: HashMap<i32, Owner>,
    /// Ended processes that nobody owned yet, and when.
    pub(crate) strays: VecDeque<(i32, Exit, u64)>,
    pub(crate) template: Template,
    pub(crate) starts: Starts,
    /// Present until the start request is answered.
    pub(crate) creation: Option<Creation>,
    /// True after a start that failed: nothing runs any more.
    pub(crate) broken: bool,
    /// What happens at the end of an episode.
    pub(crate) autoreset: Option<Autoreset>,
    /// Present when each process is one vectorised environment.
    pub(crate) vector: Option<Vector>,
    pub(crate) layout: Option<Layout>,
    /// The last good observations of an array pool, one buffer for each field.
    pub(crate) columns: Vec<Rc<Vec<u8>>>,
    pub(crate) batch: Option<Box<Batch>>,
    /// Rows that are out, each on its own.
    pub(crate) stream: Stream,
    /// Copies on their way, and saved states.
    pub(crate) branches: Branches,
    pub(crate) kept: Option<Kept>,
    pub(crate) last_seq: u64,
    /// The pool's seed P.
    pub(crate) pool_seed: u64,
    pub(crate) counters: Counters,
    pub(crate) status: Option<PendingStatus>,
    watch: watch::MemoryWatch,
    pub(crate) closing: Option<close::Closing>,
    /// No pack, no row and no template has a deadline before this one.
    pub(crate) earliest_us: u64,
    /// Streams that may have more to read.
    pub(crate) undrained: Vec<Token>,
    /// What is read in one go.
    pub(crate) scratch: Vec<u8>,
    /// A request line in the making.
    pub(crate) line: Vec<u8>,
    /// One row's observation in the making.
    pub(crate) fitted: Vec<u8>,
    /// Rewards and flags of several rows in the making.
    pub(crate) outcomes: Outcomes,
    /// A value in the making; changes places with the one it replaces.
    pub(crate) spare: Value,
}

impl Shard {
    /// Whoever waits until then has to be looked at then.
    #[inline]
    pub(crate) fn note_deadline(&mut self, deadline_us: u64) {
        self.earliest_us = self.earliest_us.min(deadline_us);
    }

    /// Reads, writes and memory of a new shard; nothing runs yet.
    pub(crate) fn new(worker: Worker, poller: Poller, isolation: Isolation, settings: Start, config: Config) -> Self {
        let rows =
            (0..settings.count).map(|local| Row::new(settings.first + local, 0, settings.episode_offset)).collect();
        let program = Program {
            argv: settings.argv.clone(),
            cwd: settings.cwd.clone(),
            environ: settings.environ.clone().into_iter().collect(),
        };
        let watch = watch::MemoryWatch::new(isolation.watches_memory());
        let mut shard = Self {
            worker,
            poller,
            isolation,
            program,
            config,
            rows,
            packs: Vec::new(),
            owners: HashMap::new(),
            strays: VecDeque::new(),
            template: Template::default(),
            starts: Starts::default(),
            creation: None,
            broken: false,
            autoreset: match settings.autoreset {
                None => None,
                Some(AutoresetWish::NextStep) => Some(Autoreset::NextStep),
                Some(AutoresetWish::SameStep | AutoresetWish::Auto) => Some(Autoreset::SameStep),
            },
            vector: None,
            layout: None,
            columns: Vec::new(),
            batch: None,
            stream: Stream::default(),
            branches: Branches::default(),
            kept: None,
            last_seq: 0,
            pool_seed: settings.seed,
            counters: Counters::default(),
            status: None,
            closing: None,
            earliest_us: watch.due_us(),
            watch,
            undrained: Vec::new(),
            scratch: vec![0; TURN_BYTES],
            line: Vec::new(),
            fitted: Vec::new(),
            outcomes: Outcomes::default(),
            spare: Value::default(),
            settings,
        };
        shard.lay_out(shard.settings.rows_per_process.unwrap_or(1));
        shard
    }
}
