//! What a failure means: evidence, an error, a new process.

use super::Shard;
use crate::isolation::{Exit, cpu_seconds};
use crate::rows::error::{ErrorKind, RowError, STDERR_TAIL_BYTES};
use crate::rows::log::LOG_BYTES;
use crate::rows::pack::{Asked, Life};
use crate::rows::process::Process;
use crate::rows::row::{NEVER, Task};
use crate::system;
use crate::values::fault::Fault;

impl Shard {
    /// A pack failed in what it was doing: its rows fail with it, its process is ended and replaced in the background.
    pub(crate) fn fail_pack(&mut self, number: usize, error: RowError) {
        if self.packs[number].life == Life::Starting {
            return self.start_failed(number, error);
        }
        self.rouse(number);
        let (error, _) = self.with_evidence(number, error);
        if self.is_probe(number) {
            return self.probe_failed(number, &error);
        }
        if self.creation.is_some() {
            return self.fail_creation(self.packs[number].rows.start, &error);
        }
        let error = self.naming_rows(number, error);
        self.replace(number);
        for local in self.packs[number].rows.clone() {
            let op = self.rows[local].op();
            self.become_failed(local, RowError { op, ..error.clone() });
        }
    }

    /// The error, with the rows that share what was lost.
    pub(crate) fn naming_rows(&self, number: usize, mut error: RowError) -> RowError {
        let pack = &self.packs[number];
        if pack.is_shared() {
            error.message.push_str(&format!("; {} shared this process", self.names_of(pack)));
        }
        error
    }

    /// A pack broke the protocol.
    pub(crate) fn break_protocol(&mut self, number: usize, fault: &Fault) {
        let op = self.packs[number].op();
        self.fail_pack(number, RowError::new(ErrorKind::Protocol, op, fault.to_string()));
    }

    /// A pack's process ended, or closed its stream and is as good as ended.
    pub(crate) fn crashed(&mut self, number: usize) {
        let pack = &self.packs[number];
        let Some(process) = &pack.process else {
            return;
        };
        let (op, pack_rows) = (pack.op(), pack.rows.len() as u32);
        // The kill may have met a child program instead, in this request or long before.
        let killed = process.exit.as_ref().is_none_or(Self::killed);
        let out_of_memory = killed && self.isolation.oom_kills(&pack.identity) > process.oom_kills_before;
        let kind = if out_of_memory { ErrorKind::Oom } else { ErrorKind::Crash };
        let mut message = match &process.exit {
            Some(exit) => format!("the environment {}", Self::ending(exit)),
            None => "the environment closed its channel".to_owned(),
        };
        if out_of_memory {
            let limit_bytes = self.isolation.together(self.settings.memory_bytes, pack_rows);
            let by_kernel = || format!("the kernel ended it at its limit of {limit_bytes} bytes");
            let why = self.isolation.memory_end(&pack.identity).unwrap_or_else(by_kernel);
            message.push_str(&format!("; {why}"));
        }
        self.fail_pack(number, RowError::new(kind, op, message));
    }

    /// By SIGKILL, itself or the child whose end it passed on as shells do.
    pub(crate) fn killed(exit: &Exit) -> bool {
        exit.signal == Some(libc::SIGKILL) || exit.code == Some(128 + libc::SIGKILL)
    }

    /// How a process ended, as part of a sentence.
    pub(crate) fn ending(exit: &Exit) -> String {
        match (exit.code, exit.signal) {
            (_, Some(signal)) => format!("was ended by signal {signal}"),
            (Some(code), None) => format!("ended with exit code {code}"),
            (None, None) => "ended".to_owned(),
        }
    }

    /// No answer came in time.
    pub(crate) fn timed_out(&mut self, number: usize) {
        let pack = &self.packs[number];
        let op = pack.op();
        let rows = pack.packed.as_ref().map_or(1, |packed| packed.asked.len() as u64);
        let deadline_ms = (pack.deadline_us.saturating_sub(pack.sent_us)) as f64 / 1000.0;
        let cpu_s = pack.process.as_ref().and_then(|process| process.pid).and_then(cpu_seconds);
        let mut message = format!("no answer to {op} within {} s", deadline_ms / 1000.0);
        if let Some(load) = overload() {
            message.push_str(&format!("; the host was short of CPU ({load})"));
        }
        let mut error = RowError::new(ErrorKind::Timeout, op, message);
        error.deadline_s = Some(deadline_ms / 1000.0);
        error.cpu_s = cpu_s;
        if pack.life == Life::Starting {
            error.deadline_s = Some(self.settings.deadlines_ms.start as f64 / 1000.0);
            error.message = format!("no answer to hello within {} ms", self.settings.deadlines_ms.start);
        }
        self.counters.stragglers += rows;
        self.fail_pack(number, error);
    }

    /// Adds exit status and standard error to an error.
    pub(crate) fn with_evidence(&mut self, number: usize, mut error: RowError) -> (RowError, bool) {
        let pack = &mut self.packs[number];
        let Some(process) = &mut pack.process else {
            return (error, false);
        };
        process.read_stderr(&mut pack.log, &mut self.scratch, LOG_BYTES);
        error.exit = error.exit.or(process.exit);
        if error.stderr_tail.is_empty() {
            error.stderr_tail = pack.log.tail_text(STDERR_TAIL_BYTES);
        }
        (error, true)
    }

    /// Ends a pack's process and everything that belongs to it alone.
    pub(crate) fn discard_process(&mut self, number: usize) {
        let pack = &mut self.packs[number];
        if pack.life == Life::Starting {
            self.starts.running -= 1;
            pack.life = Life::Queued { dirty: true };
        }
        let branching = pack.life == Life::Branching;
        pack.epoch = pack.epoch.wrapping_add(1);
        pack.deadline_us = NEVER;
        pack.ending = false;
        pack.asked = Asked::Nothing;
        pack.packed = None;
        let rows = pack.rows.clone();
        if let Some(process) = pack.process.take() {
            self.release(&process);
        }
        if branching {
            self.packs[number].life = Life::Ready;
            self.sources_ended(&rows);
        }
        for row in &mut self.rows[rows] {
            row.ended = false;
        }
    }

    /// Lets go of a process: nothing of it is told any more, and it is killed. The rest of its user's processes
    /// follow when the pack is cleaned.
    pub(crate) fn release(&mut self, process: &Process) {
        for descriptor in process.descriptors() {
            self.poller.remove(descriptor);
        }
        if let Some(pid) = process.pid
            && self.owners.remove(&pid).is_some()
        {
            system::kill(pid);
        }
    }

    /// The row holds this error until it is reset; the batch that waits for it gets it.
    pub(crate) fn become_failed(&mut self, local: usize, error: RowError) {
        let row = &mut self.rows[local];
        row.process_deadline_us = NEVER;
        let asked = std::mem::replace(&mut row.task, Task::None);
        row.error_shown = false;
        row.error = Some(error);
        if asked != Task::None {
            self.finish_with_error(local, asked.follows_an_end());
        }
    }
}

/// The load of the host, when it is more than twice its processors.
fn overload() -> Option<String> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split(' ').next()?.parse().ok()?;
    let processors = std::thread::available_parallelism().ok()?.get();
    (load > 2.0 * processors as f64).then(|| format!("load {load} on {processors} processors"))
}
