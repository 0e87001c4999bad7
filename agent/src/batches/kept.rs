//! The last reply, kept for a worker that asks again.

use crate::channel::writer::Part;

/// A reply that was sent.
pub(crate) struct Kept {
    pub(crate) seq: u64,
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<Part>,
}
