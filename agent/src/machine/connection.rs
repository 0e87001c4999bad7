//! The channel to the worker: two pipes whose other ends may go away and come back.

use super::mailbox::Answer;
use super::poller::{Poller, Source, Watched};
use crate::channel::frame::Kind;
use crate::channel::reader::FrameReader;
use crate::channel::writer::FrameWriter;
use serde_json::json;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How often a pipe without a writer is looked at.
const REOPEN: Duration = Duration::from_millis(20);

/// Both pipes.
pub struct Connection {
    input: Watched,
    output: Watched,
    /// Frames that come.
    pub reader: FrameReader,
    /// Frames that go.
    pub writer: FrameWriter,
    /// Raised with every new connection.
    pub epoch: u32,
    /// No writer is there: the shim was killed. It may come back.
    input_retry_at: Option<Instant>,
    /// No reader is there.
    output_retry_at: Option<Instant>,
    /// The input's end was told already.
    lost: bool,
}

/// What came of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// Bytes came.
    Some,
    /// Nothing is there.
    Nothing,
    /// Nobody writes any more; told once.
    Lost,
}

impl Connection {
    /// Over two pipes.
    pub fn new(input: OwnedFd, output: OwnedFd, poller: &Poller) -> io::Result<Self> {
        Ok(Self {
            input: Watched::new(input, poller, Source::Requests)?,
            output: Watched::new(output, poller, Source::Replies)?,
            reader: FrameReader::default(),
            writer: FrameWriter::default(),
            epoch: 0,
            input_retry_at: None,
            output_retry_at: None,
            lost: false,
        })
    }

    /// Reads what is there.
    pub fn fill(&mut self) -> Filled {
        match self.reader.fill(self.input.raw()) {
            Ok(0) => {
                // Half a frame of a shim that was killed would swallow the next one's first.
                self.reader = FrameReader::default();
                self.input_retry_at = Some(Instant::now() + REOPEN);
                if std::mem::replace(&mut self.lost, true) { Filled::Nothing } else { Filled::Lost }
            }
            Ok(_) => {
                self.lost = false;
                Filled::Some
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Filled::Some,
            Err(_) => Filled::Nothing,
        }
    }

    /// Until something can be read, or written of what waits; no other descriptor counts.
    pub fn wait_in_silence(&self) {
        let now = Instant::now();
        let timeout_ms = self.retry_at().map_or(-1, |at| {
            let left = at.saturating_duration_since(now).as_micros().div_ceil(1000);
            i32::try_from(left).unwrap_or(i32::MAX)
        });
        let entry =
            |used: bool, fd: i32, events: i16| libc::pollfd { fd: if used { fd } else { -1 }, events, revents: 0 };
        let mut entries = [
            entry(self.input_retry_at.is_none(), self.input.raw(), libc::POLLIN),
            entry(self.output_retry_at.is_none() && !self.writer.is_empty(), self.output.raw(), libc::POLLOUT),
        ];
        // SAFETY: the entries live until the call returns.
        unsafe { libc::poll(entries.as_mut_ptr(), 2, timeout_ms) };
    }

    /// When a pipe without its other end is looked at again.
    pub fn retry_at(&self) -> Option<Instant> {
        self.input_retry_at.into_iter().chain(self.output_retry_at).min()
    }

    /// Tries again once that moment has come.
    pub fn reopen(&mut self, now: Instant) {
        self.input_retry_at = self.input_retry_at.filter(|&at| at > now);
        self.output_retry_at = self.output_retry_at.filter(|&at| at > now);
    }

    /// Waits for what can be done now.
    pub fn watch(&mut self) {
        self.input.want(self.input_retry_at.is_none(), false);
        let waiting = !self.writer.is_empty() && self.output_retry_at.is_none();
        self.output.want(false, waiting);
    }

    /// Adds an answer.
    pub fn reply(&mut self, sequence: u32, answer: Answer) {
        match answer {
            Ok(reply) => {
                let mut head = json!({"ok": true});
                if let (Some(head), Some(members)) = (head.as_object_mut(), reply.head.as_object()) {
                    head.extend(members.clone());
                }
                self.writer.push(sequence, Kind::Reply, head.to_string().as_bytes(), reply.body);
            }
            Err(error) => self.writer.push(sequence, Kind::Reply, &error.head(), []),
        }
    }

    /// Writes what the pipe takes; true when nothing waits. Where nobody reads, everything waits for who comes next: a
    /// frame that was begun has to be ended, or it would swallow the first bytes of another.
    pub fn flush(&mut self) -> bool {
        if self.output_retry_at.is_some() {
            return self.writer.is_empty();
        }
        match self.writer.flush(self.output.raw()) {
            Ok(all) => all,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            Err(_) => {
                self.output_retry_at = Some(Instant::now() + REOPEN);
                false
            }
        }
    }
}
