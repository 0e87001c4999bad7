//! A running program: a row's environment, or the template.

use super::log::Log;
use super::stream::LineStream;
use crate::isolation::{Exit, Files};
use crate::system;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// One process and what connects us with it.
#[derive(Debug)]
pub struct Process {
    /// Its pid; of a fork it is known from the template's answer.
    pub pid: Option<i32>,
    /// The stream it answers on.
    pub stream: LineStream,
    /// Standard input and output of a program that has not answered hello yet.
    pub pipes: Option<LineStream>,
    /// Its standard error.
    pub stderr: Option<OwnedFd>,
    /// How it ended.
    pub exit: Option<Exit>,
    /// Out-of-memory kills of its cgroup before it started.
    pub oom_kills_before: u64,
    /// When it was started.
    pub started_us: u64,
    /// True when arrays may follow a line as raw bytes.
    pub takes_raw: bool,
    /// True when it can be forked as it is.
    pub forks_live: bool,
    /// True when its environment's state can be had and put back.
    pub keeps_state: bool,
    /// Its folders, where a fork of it may need a copy of them.
    pub files: Option<Files>,
}

impl Process {
    /// A process that was just started.
    pub fn new(stream: LineStream, pipes: Option<LineStream>, stderr: OwnedFd) -> Self {
        Self {
            pid: None,
            stream,
            pipes,
            stderr: Some(stderr),
            exit: None,
            oom_kills_before: 0,
            started_us: system::now_us(),
            takes_raw: false,
            forks_live: false,
            keeps_state: false,
            files: None,
        }
    }

    /// All descriptors that a poller may know.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> + '_ {
        let pipes = self.pipes.iter().flat_map(|pipes| [pipes.reading(), pipes.writing()]);
        let stream = [self.stream.reading(), self.stream.writing()];
        stream.into_iter().chain(pipes).chain(self.stderr.iter().map(AsRawFd::as_raw_fd))
    }

    /// Moves what stands in standard error into the log, at most `limit_bytes` now. False at its end.
    pub fn read_stderr(&mut self, log: &mut Log, scratch: &mut [u8], limit_bytes: usize) -> bool {
        let Some(stderr) = &self.stderr else {
            return false;
        };
        let mut total = 0;
        while total < limit_bytes {
            match system::read(stderr.as_raw_fd(), scratch) {
                Ok(0) => return false,
                Ok(count) => {
                    log.push(&scratch[..count]);
                    total += count;
                    if count < scratch.len() {
                        return true;
                    }
                }
                Err(_) => return true,
            }
        }
        true
    }
}
