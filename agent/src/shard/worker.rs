//! The worker's side of a shard: its socket, the frames that came, the frames to send.

use crate::channel::error::RequestError;
use crate::channel::frame::Kind;
use crate::channel::reader::FrameReader;
use crate::channel::writer::{FrameWriter, Part};
use crate::event_loop::{Poller, Source, Token};
use std::io;
use std::os::fd::RawFd;

/// The channel.
pub(crate) struct Worker {
    pub(crate) socket: RawFd,
    pub(crate) reader: FrameReader,
    writer: FrameWriter,
    /// True while the poller tells about room for writing.
    awaits_room: bool,
    /// The body of the frame that is handled.
    pub(crate) body: Vec<u8>,
    /// True at the end of the channel: nobody is left to serve.
    pub(crate) gone: bool,
}

impl Worker {
    /// The channel on a non-blocking socket.
    pub(crate) fn new(socket: RawFd) -> Self {
        Self {
            socket,
            reader: FrameReader::default(),
            writer: FrameWriter::default(),
            awaits_room: false,
            body: Vec::new(),
            gone: false,
        }
    }

    /// Sends a reply.
    pub(crate) fn reply(&mut self, sequence: u32, head: &[u8], body: impl IntoIterator<Item = Part>) {
        self.writer.push(sequence, Kind::Reply, head, body);
    }

    /// Sends an error as the reply.
    pub(crate) fn refuse(&mut self, sequence: u32, error: &RequestError) {
        self.reply(sequence, &error.head(), []);
    }

    /// Sends an event.
    pub(crate) fn event(&mut self, head: &[u8]) {
        self.writer.push(0, Kind::Event, head, []);
    }

    /// Sends an event that has a body.
    pub(crate) fn event_with_body(&mut self, head: &[u8], body: impl IntoIterator<Item = Part>) {
        self.writer.push(0, Kind::Event, head, body);
    }

    /// True when nothing waits to be written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.writer.is_empty()
    }

    /// Writes what the socket takes; asks the poller about the rest.
    pub(crate) fn flush(&mut self, poller: &Poller) -> io::Result<()> {
        if self.writer.is_empty() && !self.awaits_room {
            return Ok(());
        }
        let flushed = self.try_flush();
        if !self.gone && flushed == self.awaits_room {
            self.awaits_room = !flushed;
            poller.change_level(self.socket, Token::of(Source::Worker), !flushed)?;
        }
        Ok(())
    }

    /// Takes a body's memory back for the next request.
    pub(crate) fn give_back(&mut self, mut body: Vec<u8>) {
        if body.capacity() > self.body.capacity() {
            body.clear();
            self.body = body;
        }
    }

    /// Writes what the socket takes; true when nothing is left. A worker that closed its end is gone.
    pub(crate) fn try_flush(&mut self) -> bool {
        self.writer.flush(self.socket).unwrap_or_else(|_| {
            self.gone = true;
            true
        })
    }
}
