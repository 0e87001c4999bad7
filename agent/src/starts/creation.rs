//! The start request: from the first process to the first observations, or a fault that fails all of it.

use crate::channel::error::RequestError;
use crate::channel::request::{Start, Way};
use crate::event_loop::Poller;
use crate::isolation::{Isolation, Settings};
use crate::rows::error::{ErrorKind, RowError};
use crate::shard::{Shard, Worker};
use crate::starts::config::Config;
use crate::system;
use crate::values::layout::Layout;
use crate::values::propose;
use serde_json::{Value, json};
use std::io;

const BETWEEN_EVENTS_US: u64 = 100_000;

/// What the start is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The template imports.
    Template,
    /// The probe is measured.
    Measure,
    /// The worker chooses how many rows a process has.
    AwaitPacking,
    /// Rows start.
    Start,
    /// Rows are reset for the first time.
    Reset,
}

/// A start request that is not answered yet.
#[derive(Debug)]
pub(crate) struct Creation {
    sequence: u32,
    pub(crate) phase: Phase,
    began_us: u64,
    template_ready_us: u64,
    started_us: u64,
    ready: usize,
    told_us: u64,
    /// True once a process announced that it can have several rows.
    pub(crate) packable: bool,
    /// The first process's hello.
    pub(crate) hello: Vec<u8>,
}

/// A start that cannot begin.
pub(crate) struct Refused {
    worker: Worker,
    sequence: u32,
    error: RequestError,
}

impl Refused {
    /// Tells the worker; the agent then ends, for it has nothing to serve.
    pub(crate) fn answer(mut self) -> io::Result<()> {
        self.worker.refuse(self.sequence, &self.error);
        self.worker.write_all()
    }
}

/// A shard that begins to start its rows; the body of the request is the worker's.
pub(crate) fn prepare(worker: Worker, poller: Poller, sequence: u32, start: Box<Start>) -> Result<Shard, Box<Refused>> {
    let prepared = check(&start)
        .and_then(|()| Config::from_body(&worker.body, start.n, start.first, start.count))
        .and_then(|config| isolation(&start).map(|isolation| (config, isolation)));
    let (config, isolation) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Err(Box::new(Refused { worker, sequence, error })),
    };
    let mut shard = Shard::new(worker, poller, isolation, *start, config);
    let now_us = system::now_us();
    shard.starts.by_fork = shard.settings.way != Way::Spawn;
    shard.creation = Some(Creation {
        sequence,
        phase: if shard.starts.by_fork { Phase::Template } else { Phase::Start },
        began_us: now_us,
        template_ready_us: now_us,
        started_us: now_us,
        ready: 0,
        told_us: 0,
        packable: false,
        hello: Vec::new(),
    });
    if shard.starts.by_fork {
        shard.start_template();
    } else {
        shard.settle_packing();
    }
    shard.pump_starts(false);
    let _ = shard.worker.flush(&shard.poller);
    Ok(shard)
}

fn check(start: &Start) -> Result<(), RequestError> {
    let fits = start.first.checked_add(start.count).is_some_and(|end| end <= start.n);
    if start.count == 0 || !fits {
        return Err(RequestError::invalid(format!(
            "received first {} and count {} of n {}, expected at least one row within the pool",
            start.first, start.count, start.n
        )));
    }
    if start.argv.is_empty() {
        return Err(RequestError::invalid("received an empty argv, expected a program"));
    }
    Ok(())
}

fn isolation(start: &Start) -> Result<Isolation, RequestError> {
    let settings = Settings {
        isolated: start.isolated,
        base_uid: start.base_uid,
        n: start.n,
        states: start.states,
        states_memory: start.states_memory.clone(),
        template_uid: start.template_uid,
        workspace_bytes: start.workspace_bytes,
        workspace_inodes: start.workspace_inodes,
        memory_bytes: start.memory_bytes,
        shard_memory_bytes: start.shard_memory_bytes,
        memory_dir: start.memory_dir.clone(),
        own_groups: start.own_groups,
        processes: start.processes,
        workspaces: start.workspaces.clone(),
        branching: start.branching,
    };
    Isolation::new(settings).map_err(|error| RequestError::new("internal", error.to_string()))
}

impl Shard {
    /// The template is ready, or it was found that there will be none.
    pub(crate) fn note_template(&mut self) {
        if let Some(creation) = &mut self.creation {
            creation.template_ready_us = system::now_us();
            self.settle_packing();
        }
        self.tell_progress(true);
    }

    /// One more pack has a process.
    pub(crate) fn note_started(&mut self, number: usize) {
        if let Some(creation) = &mut self.creation {
            creation.ready += self.packs[number].rows.len();
            let all = creation.ready == self.rows.len();
            self.tell_progress(all);
        }
    }

    /// Sends a progress event, at most ten a second unless a phase ends.
    pub(crate) fn tell_progress(&mut self, phase_ends: bool) {
        let now_us = system::now_us();
        let total = self.rows.len();
        let reset_done = self.batch.as_ref().map_or(0, |batch| batch.done);
        let Some(creation) = &mut self.creation else {
            return;
        };
        if !phase_ends && now_us < creation.told_us + BETWEEN_EVENTS_US {
            return;
        }
        creation.told_us = now_us;
        let (phase, done) = match creation.phase {
            Phase::Template | Phase::Measure | Phase::AwaitPacking => ("template", 0),
            Phase::Start => ("start", creation.ready),
            Phase::Reset => ("reset", reset_done),
        };
        let event = json!({"event": "progress", "phase": phase, "done": done, "total": total});
        self.worker.event(event.to_string().as_bytes());
    }

    /// Moves on to the first reset, or to the reply, once all rows have started.
    pub(crate) fn advance_creation(&mut self) {
        let Some(creation) = &mut self.creation else {
            return;
        };
        if creation.phase != Phase::Start || creation.ready < self.rows.len() {
            return;
        }
        creation.started_us = system::now_us();
        if self.settings.first_reset {
            creation.phase = Phase::Reset;
            self.begin_first_reset();
        } else {
            self.finish_creation();
        }
    }

    /// All rows are there.
    pub(crate) fn finish_creation(&mut self) {
        let layout = match self.propose() {
            Ok(layout) => layout,
            Err(error) => return self.fail_creation(0, &error),
        };
        let Some(creation) = self.creation.take() else {
            return;
        };
        let milliseconds = |from_us: u64, to_us: u64| (to_us.saturating_sub(from_us)) as f64 / 1000.0;
        let way = if self.way() == Way::Fork { "fork" } else { "spawn" };
        let head = json!({
            "ok": true, "way": way, "reason": self.starts.reason, "layout": layout.to_json(),
            "rows_per_process": self.settings.rows_per_process,
            "timing": {
                "template_ms": milliseconds(creation.began_us, creation.template_ready_us),
                "start_ms": milliseconds(creation.template_ready_us, creation.started_us),
                "reset_ms": milliseconds(creation.started_us, system::now_us()),
            },
        });
        // The hello goes in as text: its numbers are the environment's.
        let mut head = head.to_string().into_bytes();
        head.pop();
        head.extend_from_slice(b",\"hello\":");
        head.extend_from_slice(&creation.hello);
        head.push(b'}');
        self.worker.reply(creation.sequence, &head, []);
    }

    fn propose(&self) -> Result<Layout, Box<RowError>> {
        let hello: Value = self
            .creation
            .as_ref()
            .and_then(|creation| serde_json::from_slice(&creation.hello).ok())
            .unwrap_or_default();
        let space = &hello["observation_space"];
        let layout = match (space.is_object(), self.rows[0].observed) {
            (true, _) => propose::from_space(space),
            (false, true) => propose::from_observation(&self.rows[0].observation.text),
            (false, false) => Layout::List,
        };
        if layout.row_bytes() > self.settings.max_row_bytes {
            let message = format!(
                "an observation of {} bytes, more than a row's share of {}",
                layout.row_bytes(),
                self.settings.max_row_bytes
            );
            return Err(Box::new(RowError::new(ErrorKind::Protocol, "hello", message)));
        }
        Ok(layout)
    }

    /// A row's fault fails the whole start.
    pub(crate) fn fail_creation(&mut self, local: usize, error: &RowError) {
        let row = self.rows[local].index;
        let mut details = error.to_json(false);
        details["row"] = json!(row);
        let message = format!("environment {row} failed in {}: {} ({})", error.op, error.message, error.kind.name());
        self.refuse_creation(&RequestError::new("environment_failed", message).with_details(details));
    }

    /// Answers the start with an error and ends everything that was started.
    pub(crate) fn refuse_creation(&mut self, error: &RequestError) {
        let Some(creation) = self.creation.take() else {
            return;
        };
        self.broken = true;
        self.batch = None;
        self.end_everything();
        self.worker.refuse(creation.sequence, error);
    }
}
