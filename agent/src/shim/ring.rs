//! The last words of the agent and the runtime: two files in turns, so that they have a bound and survive the shim.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const FILE_LIMIT_BYTES: u64 = 128 << 10;

/// `stderr` and, with what came before it, `stderr.old`.
#[derive(Debug)]
pub struct Ring {
    current: PathBuf,
    old: PathBuf,
    file: File,
    bytes: u64,
}

impl Ring {
    /// Goes on behind what is there.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let current = folder.join("stderr");
        let file = OpenOptions::new().create(true).append(true).open(&current)?;
        let bytes = file.metadata()?.len();
        Ok(Self { old: folder.join("stderr.old"), current, file, bytes })
    }

    /// Adds bytes; what cannot be written is lost.
    pub fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(FILE_LIMIT_BYTES as usize) {
            if self.bytes + chunk.len() as u64 > FILE_LIMIT_BYTES {
                let _ = self.turn();
            }
            if self.file.write_all(chunk).is_ok() {
                self.bytes += chunk.len() as u64;
            }
        }
    }

    /// The end of what was written, as text.
    pub fn tail(&self, limit: usize) -> String {
        let mut bytes = fs::read(&self.old).unwrap_or_default();
        bytes.extend(fs::read(&self.current).unwrap_or_default());
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(limit)..]).into_owned()
    }

    fn turn(&mut self) -> io::Result<()> {
        fs::rename(&self.current, &self.old)?;
        self.file = OpenOptions::new().create(true).append(true).open(&self.current)?;
        self.bytes = 0;
        Ok(())
    }
}
