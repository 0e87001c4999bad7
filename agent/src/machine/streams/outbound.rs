//! Bytes on their way to the worker.

use crate::machine::mailbox::Waker;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Most bytes of a data frame.
pub const CHUNK_BYTES: usize = 64 << 10;

/// A source that has this much waiting reads no further.
const ENOUGH_BYTES: usize = 256 << 10;

/// How a stream ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// Everything was sent.
    Whole,
    /// It broke: code and message.
    Failed(&'static str, String),
}

impl End {
    /// The head of the last frame.
    pub fn head(&self, stream: u64) -> Value {
        match self {
            Self::Whole => json!({"s": stream, "end": true}),
            Self::Failed(code, message) => json!({"s": stream, "error": {"code": code, "message": message}}),
        }
    }
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Vec<u8>>,
    bytes: usize,
    end: Option<End>,
    cancelled: bool,
}

/// A queue between one source, in the loop or in a thread, and the channel.
pub struct Outbound {
    state: Mutex<State>,
    room: Condvar,
    waker: Arc<Waker>,
}

impl Outbound {
    /// An empty one.
    pub fn new(waker: &Arc<Waker>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), room: Condvar::new(), waker: waker.clone() })
    }

    /// Whether its source may read on.
    pub fn has_room(&self) -> bool {
        let state = self.lock();
        state.bytes < ENOUGH_BYTES && !state.cancelled
    }

    /// Adds bytes, however many wait.
    pub fn push(&self, bytes: &[u8]) {
        let mut state = self.lock();
        if state.cancelled {
            return;
        }
        state.bytes += bytes.len();
        state.chunks.extend(bytes.chunks(CHUNK_BYTES).map(<[u8]>::to_vec));
    }

    /// Adds bytes from a thread, which waits for room first. Fails once the receiver has cancelled.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.chunks(CHUNK_BYTES) {
            let mut state = self.lock();
            while state.bytes >= ENOUGH_BYTES && !state.cancelled {
                state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.cancelled {
                return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the receiver has cancelled the stream"));
            }
            state.bytes += chunk.len();
            state.chunks.push_back(chunk.to_vec());
            drop(state);
            self.waker.wake();
        }
        Ok(())
    }

    /// Nothing comes after what was added.
    pub fn finish(&self, end: End) {
        self.lock().end.get_or_insert(end);
        self.waker.wake();
    }

    /// The receiver wants no more: what waits is dropped, a thread that sends fails.
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        state.chunks.clear();
        state.bytes = 0;
        drop(state);
        self.room.notify_all();
    }

    /// Whether the receiver has cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    /// Takes at most `limit` bytes from the front.
    pub fn pop(&self, limit: usize) -> Option<Vec<u8>> {
        let mut state = self.lock();
        let front = state.chunks.front_mut()?;
        let chunk = if front.len() <= limit {
            state.chunks.pop_front()?
        } else {
            let rest = front.split_off(limit);
            std::mem::replace(front, rest)
        };
        state.bytes -= chunk.len();
        drop(state);
        self.room.notify_all();
        Some(chunk)
    }

    /// Its end, once everything before it was taken.
    pub fn ended(&self) -> Option<End> {
        let state = self.lock();
        if state.chunks.is_empty() { state.end.clone() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's view of it.
pub struct Sender<'a>(pub &'a Outbound);

impl Write for Sender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
