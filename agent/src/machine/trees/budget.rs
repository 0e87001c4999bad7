//! A limit on what the tar reader takes between two entries: names and attributes of one entry, which it holds in memory.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// Names and attributes of one entry.
const METADATA_BYTES: usize = 1 << 20;

/// What may be read still; `None` while an entry's data is read, which has limits of its own.
#[derive(Clone, Default)]
pub struct Budget(Rc<Cell<Option<usize>>>);

impl Budget {
    /// The next entry's names and attributes are read.
    pub fn metadata(&self) {
        self.0.set(Some(METADATA_BYTES));
    }

    /// An entry's data is read.
    pub fn data(&self) {
        self.0.set(None);
    }
}

/// A reader that keeps to it.
pub struct Budgeted<R> {
    /// Where bytes come from.
    pub reader: R,
    /// What it keeps to.
    pub budget: Budget,
}

impl<R: Read> Read for Budgeted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(left) = self.budget.0.get() else { return self.reader.read(buffer) };
        if left == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "names and attributes of an entry pass 1 MiB"));
        }
        let limit = buffer.len().min(left);
        let count = self.reader.read(&mut buffer[..limit])?;
        self.budget.0.set(Some(left - count));
        Ok(count)
    }
}
