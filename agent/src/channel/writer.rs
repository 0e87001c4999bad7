//! Frames to the worker. What the socket does not take at once waits here, in order.

use super::frame::{self, Kind};
use crate::system;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::rc::Rc;

/// Bytes of a frame: its own, or shared with what has to stay for a repeated request.
#[derive(Debug, Clone)]
pub enum Part {
    /// Bytes that only the writer needs.
    Own(Vec<u8>),
    /// Bytes that others read too.
    Shared(Rc<Vec<u8>>),
}

impl Part {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// The parts that were not written yet.
#[derive(Debug, Default)]
pub struct FrameWriter {
    parts: VecDeque<Part>,
    /// Bytes of the first part that were written.
    written: usize,
}

impl FrameWriter {
    /// True when everything was written.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a frame whose body is made of parts.
    pub fn push(&mut self, sequence: u32, kind: Kind, head: &[u8], body: impl IntoIterator<Item = Part>) {
        let at = self.parts.len();
        self.parts.push_back(Part::Own(Vec::new()));
        let mut body_bytes = 0;
        for part in body {
            if !part.bytes().is_empty() {
                body_bytes += part.bytes().len();
                self.parts.push_back(part);
            }
        }
        let mut start = Vec::with_capacity(frame::HEADER_BYTES + head.len());
        start.extend_from_slice(&frame::encode(sequence, kind, head, body_bytes));
        start.extend_from_slice(head);
        self.parts[at] = Part::Own(start);
    }

    /// Writes as much as the socket takes; true when nothing is left.
    pub fn flush(&mut self, descriptor: RawFd) -> io::Result<bool> {
        const PARTS_AT_ONCE: usize = 16;
        while !self.parts.is_empty() {
            let mut slices = [IoSlice::new(&[]); PARTS_AT_ONCE];
            let count = self.parts.len().min(PARTS_AT_ONCE);
            for (slice, part) in slices.iter_mut().zip(&self.parts) {
                *slice = IoSlice::new(part.bytes());
            }
            slices[0] = IoSlice::new(&self.parts[0].bytes()[self.written..]);
            match system::write_vectored(descriptor, &slices[..count]) {
                Ok(bytes) => self.advance(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn advance(&mut self, bytes: usize) {
        self.written += bytes;
        while let Some(first) = self.parts.front() {
            let length = first.bytes().len();
            if self.written < length {
                return;
            }
            self.written -= length;
            self.parts.pop_front();
        }
    }
}
