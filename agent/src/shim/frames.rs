//! Finds where frames end, no more.

use crate::channel::frame::{self, HEADER_BYTES, Kind, MAGIC};

/// What stands at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// That many bytes are no frame.
    Skip(usize),
    /// Too few bytes to tell.
    Incomplete,
    /// A frame whose header and head are whole and proven.
    Frame {
        /// 1 request, 2 reply, 3 event, 4 data.
        kind: u16,
        /// Its number.
        sequence: u32,
        /// Bytes of the header and the head.
        start_bytes: usize,
        /// Bytes of the body, which may still be on the way.
        body_bytes: usize,
    },
}

/// Looks at the beginning of `bytes`.
pub fn next(bytes: &[u8]) -> Next {
    let Some(first) = bytes.first_chunk::<HEADER_BYTES>() else { return Next::Incomplete };
    let Some(header) = frame::decode(first) else { return Next::Skip(to_next_magic(bytes)) };
    let start_bytes = HEADER_BYTES + header.head_bytes;
    let Some(head) = bytes.get(HEADER_BYTES..start_bytes) else { return Next::Incomplete };
    if frame::checksum(first, head) != header.checksum {
        return Next::Skip(1);
    }
    Next::Frame { kind: header.kind, sequence: header.sequence, start_bytes, body_bytes: header.body_bytes }
}

fn to_next_magic(bytes: &[u8]) -> usize {
    let found = bytes[1..].windows(MAGIC.len()).position(|window| window == MAGIC);
    found.map_or(bytes.len() - (MAGIC.len() - 1), |at| at + 1)
}

/// Only the shim tells of itself and of the exit: an agent in a hostile machine may say what it likes.
fn claims_to_be_ours(kind: u16, head: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Event {
        event: Option<String>,
    }
    kind == Kind::Event as u16
        && serde_json::from_slice(head)
            .map_or(true, |head: Event| matches!(head.event.as_deref(), Some("shim" | "exit")))
}

/// The agent's frames on their way to the connection. A body goes on as it comes, so that a hostile agent cannot
/// make the shim hold it; a frame that began under another connection is dropped to its end.
#[derive(Debug, Default)]
pub struct Outgoing {
    buffer: Vec<u8>,
    body_left: usize,
    passing: bool,
}

impl Outgoing {
    /// Adds what came and appends what the present connection gets to `to`.
    pub fn take(&mut self, bytes: &[u8], connected: bool, to: &mut Vec<u8>) {
        self.buffer.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            let rest = &self.buffer[at..];
            if self.body_left > 0 {
                let count = self.body_left.min(rest.len());
                if self.passing {
                    to.extend_from_slice(&rest[..count]);
                }
                self.body_left -= count;
                at += count;
                if self.body_left > 0 {
                    break;
                }
                continue;
            }
            match next(rest) {
                Next::Skip(count) => at += count,
                Next::Incomplete => break,
                Next::Frame { kind, start_bytes, body_bytes, .. } => {
                    self.passing = connected && !claims_to_be_ours(kind, &rest[HEADER_BYTES..start_bytes]);
                    if self.passing {
                        to.extend_from_slice(&rest[..start_bytes]);
                    }
                    self.body_left = body_bytes;
                    at += start_bytes;
                }
            }
        }
        self.buffer.drain(..at);
    }

    /// The rest of a frame that is under way is not for the next connection.
    pub fn connection_changed(&mut self) {
        self.passing = false;
    }

    /// True between two frames, where a frame of the shim's own may stand.
    pub fn between_frames(&self) -> bool {
        self.body_left == 0 || !self.passing
    }
}
