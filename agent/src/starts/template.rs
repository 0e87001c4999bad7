//! The template: a process stopped before its first reset, of which rows are forks.

use crate::event_loop::{Source, Token};
use crate::rows::error::{ErrorKind, RowError};
use crate::rows::log::Log;
use crate::rows::process::Process;
use crate::rows::row::NEVER;
use crate::shard::{Owner, Shard};
use crate::starts::spawn::Connections;
use crate::system;
use crate::values::numbers;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Whether rows can be forked now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TemplateState {
    /// There is none.
    #[default]
    Absent,
    /// It has not answered hello.
    Starting,
    /// It forks.
    Ready,
}

/// A fork that was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forking {
    pub(crate) id: u64,
    pub(crate) number: usize,
    pub(crate) epoch: u32,
    pub(crate) deadline_us: u64,
}

/// A fork request on its way to the template.
#[derive(Debug)]
pub(crate) struct ForkLine {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sent: usize,
    /// The child's channel, its standard error and what else it gets, until they are sent.
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// The template and what it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Template {
    pub(crate) state: TemplateState,
    pub(crate) process: Option<Process>,
    pub(crate) last_id: u64,
    pub(crate) deadline_us: Option<u64>,
    pub(crate) unanswered: VecDeque<Forking>,
    pub(crate) unsent: VecDeque<ForkLine>,
    pub(crate) awaits_room: bool,
    pub(crate) log: Log,
}

impl Template {
    /// When its hello or its oldest fork is due.
    pub(crate) fn deadline_us(&self) -> u64 {
        let oldest = self.unanswered.front().map_or(NEVER, |forking| forking.deadline_us);
        self.deadline_us.unwrap_or(NEVER).min(oldest)
    }
}

impl Shard {
    /// Starts the template; failing is told like any other end of it.
    pub(crate) fn start_template(&mut self) {
        let deadline_us = system::now_us() + self.settings.deadlines_ms.start * 1000;
        self.template.state = TemplateState::Starting;
        self.template.deadline_us = Some(deadline_us);
        self.note_deadline(deadline_us);
        if let Err(error) = self.spawn_template() {
            self.template_failed(RowError::new(ErrorKind::Crash, "start", error.to_string()));
        }
    }

    fn spawn_template(&mut self) -> io::Result<()> {
        let connections = Connections::new()?;
        if self.settings.isolated {
            connections.give(self.settings.template_uid, self.settings.template_uid);
        }
        let pid = self.isolation.spawn_template(&self.program, &connections.child_fds())?;
        let mut process = connections.into_process(pid)?;
        self.poller.add_edge(process.stream.reading(), Token::of(Source::Template))?;
        if let Some(stderr) = &process.stderr {
            self.poller.add_level(stderr.as_raw_fd(), Token::of(Source::TemplateLog))?;
        }
        if let Some(pipes) = &mut process.pipes {
            self.poller.add_edge(pipes.reading(), Token::of(Source::TemplatePipes))?;
            let _ = pipes.send(&self.hello_line(0));
        }
        let _ = process.stream.send(&self.template_hello());
        self.template.last_id = 1;
        let started_us = process.started_us;
        self.template.process = Some(process);
        self.own(pid, Owner::Template, started_us);
        Ok(())
    }

    fn template_hello(&self) -> Vec<u8> {
        let mut line = br#"{"id":1,"op":"hello","protocol":1,"template":true,"index":null,"n":"#.to_vec();
        numbers::write_u64(&mut line, u64::from(self.settings.n));
        line.extend_from_slice(br#","rows":1,"workspace":null,"config":"#);
        line.extend_from_slice(self.config.shared());
        line.extend_from_slice(br#","config_per_row":"#);
        line.extend_from_slice(if self.config.is_per_row() { b"true" } else { b"false" });
        line.extend_from_slice(b"}\n");
        line
    }

    /// The template cannot be used: rows that were to be its forks have failed to start.
    pub(crate) fn template_failed(&mut self, error: RowError) {
        let error = self.end_template(error);
        let waiting: Vec<usize> = self
            .template
            .unanswered
            .drain(..)
            .map(|forking| forking.number)
            .chain(self.starts.clean.drain(..))
            .collect();
        if waiting.is_empty() && self.creation.is_some() {
            return self.fail_creation(0, &error);
        }
        for number in waiting {
            if self.broken {
                return;
            }
            self.start_failed(number, error.clone());
        }
    }

    /// Kills the template and forgets it; the error gets what it left behind.
    pub(crate) fn end_template(&mut self, mut error: RowError) -> RowError {
        self.template.state = TemplateState::Absent;
        self.template.deadline_us = None;
        self.template.awaits_room = false;
        self.template.unsent.clear();
        if let Some(mut process) = self.template.process.take() {
            process.read_stderr(&mut self.template.log, &mut self.scratch, crate::rows::log::LOG_BYTES);
            error.exit = error.exit.or(process.exit);
            self.release(&process);
        }
        error.stderr_tail = self.template.log.tail_text(crate::rows::error::STDERR_TAIL_BYTES);
        error
    }
}
