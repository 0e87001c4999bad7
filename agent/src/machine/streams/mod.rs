//! Streams of a connection: bytes that flow one way, each with a credit. Nothing is ever dropped on one.

mod inbound;
mod outbound;

pub use inbound::{Inbound, Receiver};
pub use outbound::{CHUNK_BYTES, End, Outbound, Sender};

use super::mailbox::{Post, Waker};
use crate::channel::error::RequestError;
use crate::channel::frame::Kind;
use crate::channel::writer::{FrameWriter, Part};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes that are handed to the channel in one go.
const BATCH_BYTES: usize = 256 << 10;

struct Outgoing {
    queue: Arc<Outbound>,
    credit: usize,
    /// False until the answer that comes before the data was sent.
    opened: bool,
    /// The answer that comes after its end.
    after: Option<Post>,
}

/// All streams of the present connection.
pub struct Streams {
    outgoing: BTreeMap<u64, Outgoing>,
    incoming: BTreeMap<u64, Arc<Inbound>>,
    waker: Arc<Waker>,
    /// The stream that went last; the next turn begins behind it.
    last: u64,
}

impl Streams {
    /// None yet.
    pub fn new(waker: Arc<Waker>) -> Self {
        Self { outgoing: BTreeMap::new(), incoming: BTreeMap::new(), waker, last: 0 }
    }

    /// A stream to the worker. `opened` false: nothing goes before `open`.
    pub fn add_outgoing(&mut self, stream: u64, opened: bool) -> Result<Arc<Outbound>, RequestError> {
        self.check_free(stream)?;
        let queue = Outbound::new(&self.waker);
        let credit = inbound::CREDIT_BYTES;
        self.outgoing.insert(stream, Outgoing { queue: queue.clone(), credit, opened, after: None });
        Ok(queue)
    }

    /// A stream from the worker.
    pub fn add_incoming(&mut self, stream: u64) -> Result<Arc<Inbound>, RequestError> {
        self.check_free(stream)?;
        let queue = Inbound::new(&self.waker);
        self.incoming.insert(stream, queue.clone());
        Ok(queue)
    }

    /// An error where one of these numbers is in use already, or stands there twice.
    pub fn check_all_free(&self, streams: &[u64]) -> Result<(), RequestError> {
        for (at, &stream) in streams.iter().enumerate() {
            self.check_free(stream)?;
            if streams[..at].contains(&stream) {
                return Err(RequestError::invalid(format!("stream {stream} stands twice in one request")));
            }
        }
        Ok(())
    }

    fn check_free(&self, stream: u64) -> Result<(), RequestError> {
        if self.outgoing.contains_key(&stream) || self.incoming.contains_key(&stream) {
            return Err(RequestError::invalid(format!(
                "stream {stream} is in use; expected a number that no stream of this connection has"
            )));
        }
        Ok(())
    }

    /// Whether that stream to the worker is there still.
    pub fn is_outgoing(&self, stream: u64) -> bool {
        self.outgoing.contains_key(&stream)
    }

    /// Whether its source may read on.
    pub fn has_room(&self, stream: u64) -> bool {
        self.outgoing.get(&stream).is_none_or(|outgoing| outgoing.queue.has_room())
    }

    /// Adds bytes to it.
    pub fn push(&self, stream: u64, bytes: &[u8]) {
        if let Some(outgoing) = self.outgoing.get(&stream) {
            outgoing.queue.push(bytes);
        }
    }

    /// Nothing comes after what it has.
    pub fn finish(&self, stream: u64, end: End) {
        if let Some(outgoing) = self.outgoing.get(&stream) {
            outgoing.queue.finish(end);
        }
    }

    /// The data of that stream may go now.
    pub fn open(&mut self, stream: u64) {
        if let Some(outgoing) = self.outgoing.get_mut(&stream) {
            outgoing.opened = true;
        }
    }

    /// Forgets a stream to the worker whose request failed.
    pub fn discard(&mut self, stream: u64) {
        self.outgoing.remove(&stream);
    }

    /// Holds an answer back until the stream has ended; gives it back where there is none.
    pub fn answer_after(&mut self, stream: u64, post: Post) -> Option<Post> {
        match self.outgoing.get_mut(&stream) {
            Some(outgoing) => {
                outgoing.after = Some(post);
                None
            }
            None => Some(post),
        }
    }

    /// Data, an end or an error from the worker. False when it had no credit: the stream has failed.
    pub fn deliver(&mut self, stream: u64, bytes: &[u8], end: Option<End>) -> bool {
        let Some(queue) = self.incoming.get(&stream) else { return true };
        let fits = queue.deliver(bytes);
        if !fits {
            let message = format!("{} bytes came without credit", bytes.len());
            queue.finish(End::Failed("stream_credit", message));
            self.incoming.remove(&stream);
        } else if let Some(end) = end {
            queue.finish(end);
            self.incoming.remove(&stream);
        }
        fits
    }

    /// More credit from the worker.
    pub fn credit(&mut self, stream: u64, bytes: usize) {
        if let Some(outgoing) = self.outgoing.get_mut(&stream) {
            outgoing.credit = outgoing.credit.saturating_add(bytes);
        }
    }

    /// The worker wants no more of it.
    pub fn cancel(&mut self, stream: u64) -> Option<Post> {
        let outgoing = self.outgoing.remove(&stream)?;
        outgoing.queue.cancel();
        outgoing.after
    }

    /// The connection is gone, and every stream of it.
    pub fn end_all(&mut self) {
        for outgoing in std::mem::take(&mut self.outgoing).into_values() {
            outgoing.queue.cancel();
        }
        for queue in std::mem::take(&mut self.incoming).into_values() {
            queue.finish(End::Failed("disconnected", "the connection has ended".to_owned()));
        }
    }

    /// Events to the worker: credit for what was taken, and cancelled streams.
    pub fn tell_credit(&mut self, writer: &mut FrameWriter) {
        let mut tell = |event: serde_json::Value| writer.push(0, Kind::Event, event.to_string().as_bytes(), []);
        self.incoming.retain(|&stream, queue| {
            if queue.is_closed() {
                tell(json!({"event": "cancel", "s": stream}));
                return false;
            }
            if let Some(bytes) = queue.credit() {
                tell(json!({"event": "credit", "s": stream, "bytes": bytes}));
            }
            true
        });
    }

    /// Frames of streams that have something and may send, in turns; returns answers whose stream has ended, and
    /// whether anything was written.
    pub fn pump(&mut self, writer: &mut FrameWriter) -> (Vec<Post>, bool) {
        let mut bytes = 0;
        let mut answers = Vec::new();
        loop {
            let before = bytes;
            let order: Vec<u64> = self.turn();
            for stream in order {
                bytes += self.send_chunk(stream, writer, &mut answers);
                self.last = stream;
                if bytes >= BATCH_BYTES {
                    return (answers, true);
                }
            }
            if bytes == before {
                return (answers, bytes > 0);
            }
        }
    }

    fn turn(&self) -> Vec<u64> {
        let behind = self.outgoing.range(self.last.saturating_add(1)..).map(|(stream, _)| *stream);
        behind.chain(self.outgoing.range(..=self.last).map(|(stream, _)| *stream)).collect()
    }

    /// Sends a chunk or an end; counts an end as one byte so that the turn goes on.
    fn send_chunk(&mut self, stream: u64, writer: &mut FrameWriter, answers: &mut Vec<Post>) -> usize {
        let Some(outgoing) = self.outgoing.get_mut(&stream).filter(|outgoing| outgoing.opened) else { return 0 };
        if outgoing.credit > 0
            && let Some(chunk) = outgoing.queue.pop(outgoing.credit.min(CHUNK_BYTES))
        {
            outgoing.credit -= chunk.len();
            let bytes = chunk.len();
            writer.push(0, Kind::Data, json!({"s": stream}).to_string().as_bytes(), [Part::Own(chunk)]);
            return bytes;
        }
        let Some(end) = outgoing.queue.ended() else { return 0 };
        writer.push(0, Kind::Data, end.head(stream).to_string().as_bytes(), []);
        answers.extend(self.outgoing.remove(&stream).and_then(|outgoing| outgoing.after));
        1
    }
}
