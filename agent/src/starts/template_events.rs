//! What the template says, and its end.

use crate::channel::error::RequestError;
use crate::channel::request::Way;
use crate::event_loop::{Readiness, Source, Token};
use crate::isolation::Exit;
use crate::rows::error::{ErrorKind, ReportedError, RowError};
use crate::shard::{Shard, TURN_BYTES};
use crate::starts::template::TemplateState;
use crate::system;
use crate::values::fault::excerpt;
use crate::values::reply;
use serde::Deserialize;
use serde_json::json;

/// How long the exit status of a process whose stream has ended may take.
pub(crate) const EXIT_STATUS_US: u64 = 200_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    template: bool,
    features: Vec<String>,
    ok: bool,
    pid: Option<i32>,
}

impl Shard {
    /// Something happened on one of the template's streams.
    pub(crate) fn template_event(&mut self, token: Token, readiness: Readiness) {
        if readiness.writable {
            self.send_forks();
        }
        if readiness.readable {
            self.read_template(token.source == Source::TemplatePipes);
        }
    }

    fn read_template(&mut self, pipes: bool) {
        let Some(process) = &mut self.template.process else {
            return;
        };
        let stream = if pipes { process.pipes.as_mut() } else { Some(&mut process.stream) };
        let Some(stream) = stream else {
            return;
        };
        let (lines, ended) = stream.read_lines(&mut self.scratch);
        let too_long = stream.input.len() > self.settings.max_message_bytes;
        for line in lines {
            self.template_line(pipes, &line);
        }
        if too_long {
            let error = RowError::new(ErrorKind::Protocol, "fork", "the template's line does not end");
            self.template_failed(error);
        }
        if ended {
            self.template_stream_ended(pipes);
        }
    }

    fn template_stream_ended(&mut self, pipes: bool) {
        let Some(process) = &mut self.template.process else {
            return;
        };
        if pipes {
            if let Some(pipes) = process.pipes.take() {
                self.poller.remove(pipes.reading());
            }
            return;
        }
        if self.template.state == TemplateState::Ready || process.pipes.is_none() {
            // Its exit status is on its way and says more than the end of a stream.
            let deadline_us = system::now_us() + EXIT_STATUS_US;
            self.template.deadline_us = Some(deadline_us);
            self.note_deadline(deadline_us);
        }
    }

    fn template_line(&mut self, pipes: bool, line: &[u8]) {
        if self.template.process.is_none() {
            return;
        }
        let scanned = reply::scan(line).ok();
        let Some((reply, id)) = scanned.and_then(|reply| Some((reply, reply.id?))) else {
            if self.template.state == TemplateState::Ready {
                let message = format!("the template said '{}', expected an answer to a fork", excerpt(line));
                return self.template_failed(RowError::new(ErrorKind::Protocol, "fork", message));
            }
            self.template.log.push(line);
            return self.template.log.push(b"\n");
        };
        let answer: Answer = serde_json::from_slice(line).unwrap_or_default();
        let error = reply.error.map(|member| ReportedError::parse(member.text));
        if self.template.state == TemplateState::Ready {
            let answer = match (error, answer.pid) {
                (Some(error), _) => Err(error.into_error("fork")),
                (None, Some(pid)) if answer.ok => Ok(pid),
                _ => Err(RowError::new(ErrorKind::Protocol, "fork", format!("the template said '{}'", excerpt(line)))),
            };
            return self.fork_answered(id, answer);
        }
        match error {
            None if answer.template && answer.features.iter().any(|feature| feature == "fork") => self.template_ready(),
            Some(error) if error.traceback.is_some() && error.kind.as_deref() != Some("fork_unsupported") => {
                self.template_failed(error.into_error("hello"));
            }
            Some(error) if !pipes => self.cannot_fork(error),
            _ => self.cannot_fork(ReportedError {
                message: Some("the program answers hello as an ordinary environment, not as a template".into()),
                ..ReportedError::default()
            }),
        }
    }

    fn template_ready(&mut self) {
        self.template.state = TemplateState::Ready;
        self.template.deadline_us = None;
        if let Some(process) = &mut self.template.process
            && let Some(pipes) = process.pipes.take()
        {
            self.poller.remove(pipes.reading());
        }
        self.note_template();
    }

    /// Rows are started the ordinary way, if that is allowed.
    fn cannot_fork(&mut self, error: ReportedError) {
        let blockers = error.blockers.clone();
        let mut reason = error.message.clone().unwrap_or_else(|| "the program cannot fork".into());
        if let Some(blockers) = &blockers {
            reason.push_str(&format!(" (blockers: {blockers})"));
        }
        if self.creation.is_none() {
            return self.template_failed(error.into_error("hello"));
        }
        self.end_template(RowError::new(ErrorKind::Crash, "hello", ""));
        if self.settings.way == Way::Fork {
            let refusal = RequestError::new("fork_unsupported", format!("the program cannot be forked: {reason}"))
                .with_hint("remove the blockers, or start with start=\"auto\" or start=\"spawn\"")
                .with_details(json!({"blockers": blockers}));
            return self.refuse_creation(&refusal);
        }
        self.starts.by_fork = false;
        self.starts.reason = Some(reason);
        self.note_template();
    }

    /// The template's process has ended.
    pub(crate) fn template_exited(&mut self, exit: Exit) {
        if let Some(process) = &mut self.template.process {
            process.exit = Some(exit);
        }
        self.read_template(false);
        self.read_template(true);
        if self.template.process.is_some() {
            let what = if self.template.state == TemplateState::Ready { "fork" } else { "hello" };
            let message = format!("the template {}", crate::shard::Shard::ending(&exit));
            self.template_failed(RowError::new(ErrorKind::Crash, what, message));
        }
    }

    /// The template's hello or its oldest fork is overdue, or it closed its stream.
    pub(crate) fn template_due(&mut self) {
        let starting = self.template.state == TemplateState::Starting;
        let op = if starting { "hello" } else { "fork" };
        let message = format!("the template did not answer {op} within {} ms", self.settings.deadlines_ms.start);
        let mut error = RowError::new(ErrorKind::Timeout, op, message);
        error.deadline_s = Some(self.settings.deadlines_ms.start as f64 / 1000.0);
        self.template_failed(error);
    }

    /// The template's standard error has something.
    pub(crate) fn read_template_log(&mut self) {
        let Some(process) = &mut self.template.process else {
            return;
        };
        if !process.read_stderr(&mut self.template.log, &mut self.scratch, TURN_BYTES)
            && let Some(stderr) = process.stderr.take()
        {
            self.poller.remove(std::os::fd::AsRawFd::as_raw_fd(&stderr));
        }
    }
}
