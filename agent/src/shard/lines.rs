//! Reads what packs say: one read for each arrival, whole lines straight out of the shared buffer.

use super::{Shard, TURN_BYTES};
use crate::event_loop::{Readiness, Source, Token};
use crate::rows::pack::Life;
use crate::rows::stream::LineStream;
use crate::starts::EXIT_STATUS_US;
use crate::system;
use crate::values::fault::{Fault, excerpt};
use crate::values::reply;
use std::io;
use std::os::fd::AsRawFd;

/// What became of a buffer of lines.
#[derive(Debug, Default, Clone, Copy)]
struct Taken {
    /// Bytes that were used up.
    used: usize,
    /// Bytes behind them that hold no line end.
    searched: usize,
    /// Bytes behind them that the next line takes, if that is known.
    needed: usize,
}

impl Shard {
    /// Something happened on a pack's stream.
    #[inline]
    pub(crate) fn pack_event(&mut self, token: Token, readiness: Readiness) {
        let number = token.pack;
        if self.packs[number].epoch & 0xff_ffff != token.epoch {
            return;
        }
        if readiness.writable {
            self.flush_pack(number);
            self.send_more_forks(number);
        }
        if readiness.readable {
            let more = self.read_pack(number, token.source == Source::PackPipes);
            if more || readiness.hangup {
                self.undrained.push(token);
            }
        }
    }

    /// One more turn for each stream that had more than one turn's worth, or whose end is still to be read.
    pub(crate) fn read_undrained(&mut self) {
        if self.undrained.is_empty() {
            return;
        }
        for token in std::mem::take(&mut self.undrained) {
            let number = token.pack;
            if self.packs[number].epoch & 0xff_ffff == token.epoch
                && self.read_pack(number, token.source == Source::PackPipes)
            {
                self.undrained.push(token);
            }
        }
    }

    /// Reads once. True when there may be more.
    pub(crate) fn read_pack(&mut self, number: usize, pipes: bool) -> bool {
        let Some(stream) = self.stream_of(number, pipes) else {
            return false;
        };
        if stream.ended {
            return false;
        }
        // A process that says long lines gets them into its own buffer from the first byte.
        let direct = stream.input.is_empty() && stream.input.capacity() <= TURN_BYTES;
        let descriptor = stream.reading();
        let received = if direct {
            system::read(descriptor, &mut self.scratch)
        } else {
            // A long line goes on in its own buffer, without a copy.
            self.packs_stream(number, pipes, |stream| system::read_into(descriptor, &mut stream.input, TURN_BYTES))
        };
        match received {
            Ok(0) => {
                self.stream_ended(number, pipes);
                false
            }
            Ok(count) => {
                if direct {
                    self.take_from_scratch(number, pipes, count);
                } else {
                    self.take_from_input(number, pipes);
                }
                count == TURN_BYTES
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            Err(_) => {
                self.stream_ended(number, pipes);
                false
            }
        }
    }

    fn stream_of(&mut self, number: usize, pipes: bool) -> Option<&mut LineStream> {
        let process = self.packs[number].process.as_mut()?;
        if pipes { process.pipes.as_mut() } else { Some(&mut process.stream) }
    }

    fn packs_stream(
        &mut self,
        number: usize,
        pipes: bool,
        read: impl FnOnce(&mut LineStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.stream_of(number, pipes).map_or(Ok(0), read)
    }

    #[inline]
    fn take_from_scratch(&mut self, number: usize, pipes: bool, count: usize) {
        let scratch = std::mem::take(&mut self.scratch);
        let taken = self.take_lines(number, pipes, &scratch[..count], 0);
        if taken.used < count {
            self.keep_rest(number, pipes, &scratch[taken.used..count], taken);
        }
        self.scratch = scratch;
    }

    fn take_from_input(&mut self, number: usize, pipes: bool) {
        let Some(stream) = self.stream_of(number, pipes) else {
            return;
        };
        if stream.input.len() < stream.needed {
            return;
        }
        let searched = stream.searched;
        let mut input = std::mem::take(&mut stream.input);
        let kept_bytes = TURN_BYTES * self.packs[number].rows.len();
        let taken = self.take_lines(number, pipes, &input, searched);
        if taken.used == 0 {
            // Nothing was whole: the buffer goes back as it is.
            if let Some(stream) = self.stream_after(number, pipes) {
                stream.input = input;
                stream.searched = taken.searched;
                stream.needed = taken.needed;
            }
            return;
        }
        let rest = input.split_off(taken.used.min(input.len()));
        if !rest.is_empty() {
            self.keep_rest(number, pipes, &rest, taken);
        } else if let Some(stream) = self.stream_after(number, pipes).filter(|_| input.capacity() <= kept_bytes) {
            input.clear();
            stream.input = input;
            stream.searched = 0;
            stream.needed = 0;
        }
    }

    fn keep_rest(&mut self, number: usize, pipes: bool, rest: &[u8], taken: Taken) {
        if let Some(stream) = self.stream_after(number, pipes) {
            stream.input.extend_from_slice(rest);
            stream.searched = taken.searched;
            stream.needed = taken.needed;
        }
    }

    /// The stream that a buffer belongs to once its lines were taken: the choice between two may have been made.
    fn stream_after(&mut self, number: usize, pipes: bool) -> Option<&mut LineStream> {
        let process = self.packs[number].process.as_mut()?;
        match (pipes, &mut process.pipes) {
            (true, Some(undecided)) => Some(undecided),
            (true, None) => Some(&mut process.stream).filter(|stream| !stream.is_socket()),
            (false, _) => Some(&mut process.stream),
        }
    }

    /// Takes all whole lines; `searched` bytes are known to hold no line end.
    fn take_lines(&mut self, number: usize, pipes: bool, bytes: &[u8], searched: usize) -> Taken {
        let epoch = self.packs[number].epoch;
        let limit = self.message_limit_bytes(number);
        let mut used = 0;
        let mut searched = searched;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let Some(end) = system::find_byte(b'\n', &rest[searched..]).map(|end| end + searched) else {
                if rest.len() > limit {
                    self.break_protocol(number, &Fault::new(format!("a line of more than {limit} bytes")));
                    used = bytes.len();
                }
                return Taken { used, searched: rest.len(), needed: 0 };
            };
            match self.take_line(number, pipes, &rest[..end], &rest[end + 1..]) {
                Ok(raw_bytes) => used += end + 1 + raw_bytes,
                Err(needed) => return Taken { used, searched: end, needed: end + 1 + needed },
            }
            if self.packs[number].epoch != epoch {
                return Taken { used: bytes.len(), ..Taken::default() };
            }
            searched = 0;
        }
        Taken { used, ..Taken::default() }
    }

    /// Takes one line and the raw bytes that it announces, and returns their number; an error is the number of raw
    /// bytes that have to be there first.
    #[inline]
    fn take_line(&mut self, number: usize, pipes: bool, line: &[u8], after: &[u8]) -> Result<usize, usize> {
        let pack = &self.packs[number];
        if pack.life != Life::Ready {
            return self.take_early_line(number, pipes, line, after);
        }
        if pack.packed.is_some() {
            return self.take_packed_line(number, line, after);
        }
        let reply = match reply::scan(line) {
            Ok(reply) => reply,
            Err(fault) => {
                self.unacceptable_line(number, &fault, line);
                return Ok(0);
            }
        };
        let raw_bytes = reply.raw_bytes;
        if self.is_too_long(number, line.len(), raw_bytes) {
            return Ok(0);
        }
        if after.len() < raw_bytes {
            return Err(raw_bytes);
        }
        self.answered(number, &reply, &after[..raw_bytes]);
        Ok(raw_bytes)
    }

    /// A line of a process that no row can be asked in yet.
    #[cold]
    fn take_early_line(&mut self, number: usize, pipes: bool, line: &[u8], after: &[u8]) -> Result<usize, usize> {
        match self.packs[number].life {
            Life::Starting => self.hello_answer(number, pipes, line),
            Life::Probe => return self.take_packed_line(number, line, after),
            Life::Branching => return self.take_branch_line(number, line, after),
            Life::Queued { .. } | Life::Lost | Life::Ready => {}
        }
        Ok(0)
    }

    /// The longest message of a process: a row's, times its rows, within what a frame holds.
    fn message_limit_bytes(&self, number: usize) -> usize {
        const FRAME_LIMIT_BYTES: usize = 1 << 30;
        let limit = self.settings.max_message_bytes;
        match self.packs[number].rows.len() {
            1 => limit,
            rows => limit.saturating_mul(rows).min(limit.max(FRAME_LIMIT_BYTES)),
        }
    }

    /// True for a message over the limit, which is a fault.
    pub(crate) fn is_too_long(&mut self, number: usize, line_bytes: usize, raw_bytes: usize) -> bool {
        let limit = self.message_limit_bytes(number);
        if line_bytes.saturating_add(raw_bytes) <= limit {
            return false;
        }
        let fault = format!("a message of {line_bytes} and {raw_bytes} raw bytes, more than {limit}");
        self.break_protocol(number, &Fault::new(fault));
        true
    }

    /// A line that is not JSON as the protocol wants it.
    pub(crate) fn unacceptable_line(&mut self, number: usize, fault: &Fault, line: &[u8]) {
        let fault = format!("a line that cannot be accepted: {fault}; it begins '{}'", excerpt(line));
        self.break_protocol(number, &Fault::new(fault));
    }

    /// The other side closed a stream. Its exit status is on its way and says more.
    fn stream_ended(&mut self, number: usize, pipes: bool) {
        let pack = &mut self.packs[number];
        let Some(process) = &mut pack.process else {
            return;
        };
        if pipes {
            if let Some(pipes) = process.pipes.take() {
                self.poller.remove(pipes.reading());
            }
        } else {
            process.stream.ended = true;
            self.poller.remove(process.stream.reading());
        }
        if !process.stream.ended || process.pipes.is_some() || process.exit.is_some() || pack.ending {
            return;
        }
        pack.ending = true;
        pack.deadline_us = pack.deadline_us.min(system::now_us() + EXIT_STATUS_US);
        let deadline_us = pack.deadline_us;
        self.note_deadline(deadline_us);
    }

    /// Sends what a pack's stream did not take before.
    fn flush_pack(&mut self, number: usize) {
        let pack = &mut self.packs[number];
        let Some(process) = &mut pack.process else {
            return;
        };
        // An error shows as the end of the stream too.
        if process.stream.flush().unwrap_or(true) {
            let token = Token::of_pack(Source::Pack, number, pack.epoch);
            if process.stream.is_socket() {
                let _ = self.poller.change_edge(process.stream.reading(), token, false);
            } else {
                self.poller.remove(process.stream.writing());
            }
        }
    }

    /// Sends a line to a pack; what it does not take now follows when it reads.
    #[inline]
    pub(crate) fn send_to_pack(&mut self, number: usize, line: &[u8]) {
        let pack = &mut self.packs[number];
        let Some(process) = &mut pack.process else {
            return;
        };
        // A process that is gone is told by the end of its stream.
        if process.stream.send(line).unwrap_or(true) {
            return;
        }
        let token = Token::of_pack(Source::Pack, number, pack.epoch);
        let _ = if process.stream.is_socket() {
            self.poller.change_edge(process.stream.reading(), token, true)
        } else {
            self.poller.add_writable(process.stream.writing(), token)
        };
    }

    /// A pack's standard error has something.
    pub(crate) fn read_log(&mut self, token: Token) {
        let pack = &mut self.packs[token.pack];
        let Some(process) = pack.process.as_mut().filter(|_| pack.epoch & 0xff_ffff == token.epoch) else {
            return;
        };
        if !process.read_stderr(&mut pack.log, &mut self.scratch, TURN_BYTES)
            && let Some(stderr) = process.stderr.take()
        {
            self.poller.remove(stderr.as_raw_fd());
        }
    }
}
