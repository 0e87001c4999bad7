//! What an environment wrote to standard error, the newest 64 KiB.

/// Bytes that are kept.
pub const LOG_BYTES: usize = 64 << 10;

/// A log that forgets its oldest bytes.
#[derive(Debug, Default)]
pub struct Log {
    bytes: Vec<u8>,
}

impl Log {
    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let newest = &bytes[bytes.len().saturating_sub(LOG_BYTES)..];
        self.bytes.extend_from_slice(newest);
        // Trimmed at twice the size, so that a flood costs one move for each 64 KiB of it.
        if self.bytes.len() > 2 * LOG_BYTES {
            self.bytes.drain(..self.bytes.len() - LOG_BYTES);
        }
    }

    /// Marks that the process was replaced, on a line of its own.
    pub fn mark_replaced(&mut self) {
        if self.bytes.last().is_some_and(|last| *last != b'\n') {
            self.push(b"\n");
        }
        self.push(b"--- replaced ---\n");
    }

    /// The newest 64 KiB.
    pub fn tail(&self) -> &[u8] {
        &self.bytes[self.bytes.len().saturating_sub(LOG_BYTES)..]
    }

    /// The newest bytes as text, for an error.
    pub fn tail_text(&self, limit_bytes: usize) -> String {
        let tail = &self.bytes[self.bytes.len().saturating_sub(limit_bytes)..];
        String::from_utf8_lossy(tail).into_owned()
    }
}
