//! Bytes from the worker.

use super::outbound::End;
use crate::machine::mailbox::Waker;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What the worker may send before it hears of the first bytes taken.
pub const CREDIT_BYTES: usize = 1 << 20;

/// Credit is given back in such pieces.
const CREDIT_STEP_BYTES: usize = 256 << 10;

#[derive(Default)]
struct State {
    chunks: VecDeque<Vec<u8>>,
    /// Bytes of the first chunk that were taken.
    taken: usize,
    bytes: usize,
    end: Option<End>,
    /// Taken and not given back as credit yet.
    owed_bytes: usize,
    /// Nobody takes any more.
    closed: bool,
}

/// A queue between the channel and one taker, in the loop or in a thread.
pub struct Inbound {
    state: Mutex<State>,
    arrival: Condvar,
    waker: Arc<Waker>,
}

impl Inbound {
    /// An empty one.
    pub fn new(waker: &Arc<Waker>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), arrival: Condvar::new(), waker: waker.clone() })
    }

    /// Adds bytes; false when the worker had no credit for them.
    pub fn deliver(&self, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        if state.closed || state.end.is_some() || bytes.is_empty() {
            return true;
        }
        if state.bytes + state.owed_bytes + bytes.len() > CREDIT_BYTES {
            return false;
        }
        state.bytes += bytes.len();
        state.chunks.push_back(bytes.to_vec());
        drop(state);
        self.arrival.notify_all();
        true
    }

    /// The stream's end. What arrived before a failure and was not taken is dropped: nobody could tell how far it came.
    pub fn finish(&self, end: End) {
        let mut state = self.lock();
        if end != End::Whole && state.end.is_none() {
            state.chunks.clear();
            state.taken = 0;
            state.bytes = 0;
        }
        state.end.get_or_insert(end);
        drop(state);
        self.arrival.notify_all();
    }

    /// Nobody takes any more.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.chunks.clear();
        state.taken = 0;
        state.bytes = 0;
        drop(state);
        self.waker.wake();
    }

    /// Whether nobody takes any more.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Gives what waits in front to `take`, which says how many bytes it took.
    pub fn take_with(&self, take: impl FnOnce(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        let mut state = self.lock();
        let Some(front) = state.chunks.front() else { return Ok(0) };
        let count = take(&front[state.taken..])?;
        let exhausted = state.taken + count == front.len();
        state.taken += count;
        if exhausted {
            state.chunks.pop_front();
            state.taken = 0;
        }
        state.bytes -= count;
        state.owed_bytes += count;
        Ok(count)
    }

    /// Whether something waits.
    pub fn has_bytes(&self) -> bool {
        self.lock().bytes > 0
    }

    /// Its end, once everything before it was taken.
    pub fn ended(&self) -> Option<End> {
        let state = self.lock();
        if state.bytes == 0 { state.end.clone() } else { None }
    }

    /// Credit to give now: in large pieces, or all of it when nothing waits.
    pub fn credit(&self) -> Option<usize> {
        let mut state = self.lock();
        let due = state.owed_bytes >= CREDIT_STEP_BYTES || (state.owed_bytes > 0 && state.bytes == 0);
        (due && state.end.is_none()).then(|| std::mem::take(&mut state.owed_bytes))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's view of it: blocks until bytes arrive; a failed stream is an error.
pub struct Receiver<'a>(pub &'a Inbound);

impl Read for Receiver<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let mut state = self.0.lock();
        while state.bytes == 0 {
            match &state.end {
                Some(End::Whole) => return Ok(0),
                Some(End::Failed(code, message)) => {
                    return Err(io::Error::new(io::ErrorKind::ConnectionAborted, format!("{code}: {message}")));
                }
                None => state = self.0.arrival.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
        drop(state);
        let count = self.0.take_with(|bytes| {
            let count = bytes.len().min(buffer.len());
            buffer[..count].copy_from_slice(&bytes[..count]);
            Ok(count)
        })?;
        self.0.waker.wake();
        Ok(count)
    }
}
