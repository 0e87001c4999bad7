//! The one server that is connected.

use super::frames::{self, Next};
use super::pipes::Queue;
use crate::channel::frame::{self, Kind};
use crate::system;
use serde_json::Value;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// A frame is passed to the agent only when it is whole: half a frame would swallow the next connection's.
const FRAME_LIMIT_BYTES: usize = 256 << 20;
const READ_BYTES: usize = 256 << 10;

/// A connection and what is on its way to it.
#[derive(Debug)]
pub struct Connection {
    /// The socket, non-blocking.
    pub socket: UnixStream,
    /// Tells it from later ones.
    pub number: u64,
    /// Bytes for it.
    pub queue: Queue,
    incoming: Vec<u8>,
}

/// A frame of the connection.
pub enum Frame<'a> {
    /// For the agent, byte for byte.
    Agent(&'a [u8]),
    /// For the shim itself.
    Own {
        /// To be repeated in the reply.
        sequence: u32,
        /// Its head.
        head: Value,
    },
}

impl Connection {
    /// Takes over an accepted socket.
    pub fn new(socket: UnixStream, number: u64) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, number, queue: Queue::default(), incoming: Vec::new() })
    }

    /// Reads once. False: the connection has ended.
    pub fn read(&mut self) -> bool {
        match system::read_into(self.socket.as_raw_fd(), &mut self.incoming, READ_BYTES) {
            Ok(count) => count > 0,
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    /// Hands over each whole frame. False: it sent one that is too long.
    pub fn take_frames(&mut self, mut each: impl FnMut(Frame)) -> bool {
        let mut at = 0;
        let fits = loop {
            let rest = &self.incoming[at..];
            match frames::next(rest) {
                Next::Skip(count) => at += count,
                Next::Incomplete => break rest.len() <= FRAME_LIMIT_BYTES,
                Next::Frame { kind, sequence, start_bytes, body_bytes } => {
                    let whole = start_bytes + body_bytes;
                    if whole > FRAME_LIMIT_BYTES {
                        break false;
                    }
                    if rest.len() < whole {
                        break true;
                    }
                    match own_head(kind, &rest[frame::HEADER_BYTES..start_bytes]) {
                        Some(head) => each(Frame::Own { sequence, head }),
                        None => each(Frame::Agent(&rest[..whole])),
                    }
                    at += whole;
                }
            }
        };
        self.incoming.drain(..at);
        if self.incoming.is_empty() && self.incoming.capacity() > READ_BYTES * 2 {
            self.incoming = Vec::new();
        }
        fits
    }
}

/// The head of a request whose operation is the shim's own.
fn own_head(kind: u16, head: &[u8]) -> Option<Value> {
    const MARK: &[u8] = b"\"shim.";
    if kind != Kind::Request as u16 || !head.windows(MARK.len()).any(|window| window == MARK) {
        return None;
    }
    let head: Value = serde_json::from_slice(head).ok()?;
    head.get("op")?.as_str()?.starts_with("shim.").then_some(head)
}

/// A frame without a body.
pub fn encode(sequence: u32, kind: Kind, head: &Value) -> Vec<u8> {
    let head = head.to_string().into_bytes();
    let mut bytes = frame::encode(sequence, kind, &head, 0).to_vec();
    bytes.extend(head);
    bytes
}
