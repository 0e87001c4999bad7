//! A stream of lines to and from one process. Neither side of it ever blocks the agent.

use crate::system;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Both directions: one socket, or two pipes.
#[derive(Debug)]
pub struct LineStream {
    read: OwnedFd,
    /// Standard input of the process; none for a socket.
    write: Option<OwnedFd>,
    /// The start of a line that is not whole yet.
    pub input: Vec<u8>,
    /// How much of `input` holds no line end.
    pub searched: usize,
    /// Bytes of `input` before another look makes sense.
    pub needed: usize,
    output: Vec<u8>,
    written: usize,
    /// True after the other side closed.
    pub ended: bool,
}

impl LineStream {
    /// A socket.
    pub fn socket(socket: OwnedFd) -> Self {
        Self::new(socket, None)
    }

    /// Our ends of standard output and standard input, made non-blocking.
    pub fn pipes(stdout: OwnedFd, stdin: OwnedFd) -> io::Result<Self> {
        system::set_nonblocking(stdout.as_raw_fd())?;
        system::set_nonblocking(stdin.as_raw_fd())?;
        Ok(Self::new(stdout, Some(stdin)))
    }

    fn new(read: OwnedFd, write: Option<OwnedFd>) -> Self {
        Self { read, write, input: Vec::new(), searched: 0, needed: 0, output: Vec::new(), written: 0, ended: false }
    }

    /// The descriptor to read from.
    #[inline]
    pub fn reading(&self) -> RawFd {
        self.read.as_raw_fd()
    }

    /// The descriptor to write to.
    #[inline]
    pub fn writing(&self) -> RawFd {
        self.write.as_ref().unwrap_or(&self.read).as_raw_fd()
    }

    /// True when both directions are one socket.
    pub fn is_socket(&self) -> bool {
        self.write.is_none()
    }

    /// Sends bytes; what does not fit now is kept. False when some of it was kept.
    #[inline]
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<bool> {
        if !self.output.is_empty() {
            self.output.extend_from_slice(bytes);
            return Ok(false);
        }
        let mut sent = 0;
        while sent < bytes.len() {
            match system::write(self.writing(), &bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.output.extend_from_slice(&bytes[sent..]);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sends what was kept; true when nothing is left.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.output.len() {
            match system::write(self.writing(), &self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.output = Vec::new();
        self.written = 0;
        Ok(true)
    }
}

impl LineStream {
    /// Reads until nothing is left: whole lines, and true at the end of the stream. For streams of few lines.
    pub fn read_lines(&mut self, scratch: &mut [u8]) -> (Vec<Vec<u8>>, bool) {
        const TURNS: usize = 16;
        let mut ended = false;
        for _ in 0..TURNS {
            match system::read(self.reading(), scratch) {
                Ok(0) => ended = true,
                Ok(count) => {
                    self.input.extend_from_slice(&scratch[..count]);
                    continue;
                }
                Err(error) => ended = error.kind() != io::ErrorKind::WouldBlock,
            }
            break;
        }
        let mut lines = Vec::new();
        let mut start = 0;
        while let Some(length) = system::find_byte(b'\n', &self.input[start..]) {
            lines.push(self.input[start..start + length].to_vec());
            start += length + 1;
        }
        self.input.drain(..start);
        (lines, ended)
    }
}
