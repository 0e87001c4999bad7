//! Puts frames together from what the channel gives; after damage it looks for the next magic.

use super::frame::{self, HEADER_BYTES, Header, MAGIC};
use std::io;
use std::ops::Range;
use std::os::fd::RawFd;

const READ_BYTES: usize = 64 << 10;

/// A whole frame; the ranges point into the reader's buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    /// Its number.
    pub sequence: u32,
    /// 1 request, 2 reply, 3 event, 4 data.
    pub kind: u16,
    /// Where its head stands.
    pub head: Range<usize>,
    /// Where its body stands.
    pub body: Range<usize>,
}

/// Bytes that were read and not consumed yet.
#[derive(Debug, Default)]
pub struct FrameReader {
    buffer: Vec<u8>,
    start: usize,
    /// Bytes that were skipped because no frame stood there.
    pub skipped_bytes: u64,
}

impl FrameReader {
    /// Reads once. `Ok(0)` is the end of the stream; `WouldBlock` means that nothing is there.
    pub fn fill(&mut self, descriptor: RawFd) -> io::Result<usize> {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let wanted = self.missing().clamp(READ_BYTES, 4 << 20);
        self.buffer.reserve(wanted);
        crate::system::read_into(descriptor, &mut self.buffer, wanted)
    }

    /// Adds bytes that came another way.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, if it is there. Its bytes stay until `consume`.
    pub fn next_frame(&mut self) -> Option<Incoming> {
        loop {
            let header = self.header()?;
            let head_start = self.start + HEADER_BYTES;
            let head = head_start..head_start + header.head_bytes;
            let first = *self.buffer[self.start..].first_chunk::<HEADER_BYTES>()?;
            let head_bytes = self.buffer.get(head.clone())?;
            if frame::checksum(&first, head_bytes) != header.checksum {
                self.skip(1);
                continue;
            }
            let body = head.end..head.end + header.body_bytes;
            if self.buffer.len() < body.end {
                return None;
            }
            return Some(Incoming { sequence: header.sequence, kind: header.kind, head, body });
        }
    }

    /// The bytes of a range of a frame.
    pub fn bytes(&self, range: &Range<usize>) -> &[u8] {
        &self.buffer[range.clone()]
    }

    /// Ends a frame and gives its body away; a body that ends the buffer is not copied.
    pub fn consume(&mut self, frame: &Incoming, body: &mut Vec<u8>) {
        body.clear();
        if self.buffer.len() == frame.body.end && frame.body.len() > READ_BYTES {
            self.buffer.drain(..frame.body.start);
            std::mem::swap(&mut self.buffer, body);
            self.buffer.clear();
            self.start = 0;
            return;
        }
        body.extend_from_slice(&self.buffer[frame.body.clone()]);
        self.start = frame.body.end;
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
    }

    /// A header at the start of the unread bytes, found by skipping what is none.
    fn header(&mut self) -> Option<Header> {
        loop {
            let rest = &self.buffer[self.start..];
            let first = rest.first_chunk::<HEADER_BYTES>()?;
            if let Some(header) = frame::decode(first) {
                return Some(header);
            }
            let next = rest[1..].windows(MAGIC.len()).position(|window| window == MAGIC);
            let skipped = next.map_or(rest.len() - (MAGIC.len() - 1), |next| next + 1);
            self.skip(skipped);
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.start += bytes;
        self.skipped_bytes += bytes as u64;
    }

    /// Bytes that the frame in front still lacks, as far as its header tells.
    fn missing(&self) -> usize {
        let header = self.buffer.first_chunk::<HEADER_BYTES>().and_then(frame::decode);
        header.map_or(0, |header| {
            (HEADER_BYTES + header.head_bytes + header.body_bytes).saturating_sub(self.buffer.len())
        })
    }
}
