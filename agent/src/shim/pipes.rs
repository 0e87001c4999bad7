//! The three FIFOs of a machine, opened by each side for itself. The container can read what it writes to: so it meets no
//! broken pipe while there is no shim. Its input it can only read: the end of file tells the agent that half a frame
//! which stands there stays half.

use super::runtime::Streams;
use crate::system;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// More than a pipe has at first: fewer turns for large bodies.
const PIPE_BYTES: i32 = 256 << 10;

/// The shim's descriptions.
#[derive(Debug)]
pub struct Pipes {
    /// To the agent.
    pub input: File,
    /// From the agent.
    pub output: File,
    /// Its standard error.
    pub errors: File,
}

impl Pipes {
    /// Opens `in`, `out` and `err` of a machine's folder.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let pipes = Self {
            input: open(folder, "in", true, libc::O_NONBLOCK)?,
            output: open(folder, "out", true, libc::O_NONBLOCK)?,
            errors: open(folder, "err", true, libc::O_NONBLOCK)?,
        };
        for pipe in [&pipes.input, &pipes.output] {
            // SAFETY: takes numbers only. A user at the limit of pipe memory keeps the smaller size.
            unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
        }
        Ok(pipes)
    }
}

/// Descriptions for a new container: runsc sets O_NONBLOCK on them.
pub fn for_container(folder: &Path) -> io::Result<Streams> {
    Ok(Streams {
        input: open(folder, "in", false, 0)?,
        output: open(folder, "out", true, 0)?,
        errors: open(folder, "err", true, 0)?,
    })
}

fn open(folder: &Path, name: &str, writing: bool, flags: i32) -> io::Result<File> {
    let file = folder.join(name);
    let opened = OpenOptions::new().read(true).write(writing).custom_flags(flags | libc::O_NOFOLLOW).open(&file);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

/// Bytes that wait for a descriptor.
#[derive(Debug, Default)]
pub struct Queue {
    bytes: Vec<u8>,
    written: usize,
}

/// A buffer that grew beyond this is given back once it is empty.
const KEPT_BYTES: usize = 1 << 20;

impl Queue {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// True when none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where to append.
    pub fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Writes as much as the descriptor takes.
    pub fn flush(&mut self, descriptor: RawFd) -> io::Result<()> {
        while !self.is_empty() {
            match system::write(descriptor, &self.bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.written = 0;
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        Ok(())
    }
}
