//! Reading what programs write: no faster than its readers take it, and never less than all of it.

use super::{Exec, Output};
use crate::machine::run::Machine;
use crate::machine::streams::{CHUNK_BYTES, End, Streams};
use std::io;

/// Reads of one output in one turn of the loop.
const READS: usize = 8;

impl Machine {
    /// Something can be read from an output.
    pub(in crate::machine) fn exec_readable(&mut self, slot: u32, errors: bool) {
        let Some(exec) = self.execs.of_slot(slot) else { return };
        let output = if errors { exec.stderr.as_mut() } else { Some(&mut exec.stdout) };
        if let Some(output) = output {
            output.read(&mut self.scratch, &mut self.streams);
        }
        self.exec_settle(slot);
    }

    /// What every exec waits for now: room may have come for its readers.
    pub(in crate::machine) fn exec_watch_all(&mut self) {
        self.execs.slots.values_mut().for_each(|exec| exec.watch(&self.streams));
    }
}

impl Output {
    /// Whether its program may be read from now: a reader without credit makes it wait.
    pub(super) fn may_read(&mut self, streams: &Streams) -> bool {
        self.readers.retain(|&stream| streams.is_outgoing(stream));
        self.owed_bytes > 0 || self.readers.iter().all(|&stream| streams.has_room(stream))
    }

    fn read(&mut self, scratch: &mut Vec<u8>, streams: &mut Streams) {
        for _ in 0..READS {
            if !self.may_read(streams) {
                return;
            }
            let Some(source) = &self.source else { return };
            let roomy = self.readers.iter().all(|&stream| streams.has_room(stream));
            let limit = if roomy { CHUNK_BYTES } else { self.owed_bytes.min(CHUNK_BYTES) };
            scratch.clear();
            match crate::system::read_into(source.raw(), scratch, limit) {
                Ok(0) => self.source = None,
                Ok(count) => {
                    self.owed_bytes = self.owed_bytes.saturating_sub(count);
                    self.kept.add(scratch);
                    for &reader in &self.readers {
                        streams.push(reader, scratch);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Bytes of a terminal can be taken back by its line discipline.
                    self.owed_bytes = 0;
                    return;
                }
                // The last user of a terminal is gone.
                Err(_) => self.source = None,
            }
        }
    }

    /// Counts what stands in the pipe now.
    pub(super) fn owe_rest(&mut self) {
        let Some(source) = &self.source else { return };
        let mut count: libc::c_int = 0;
        // SAFETY: the number outlives the call.
        if unsafe { libc::ioctl(source.raw(), libc::FIONREAD, &raw mut count) } == 0 {
            self.owed_bytes = usize::try_from(count).unwrap_or(0);
        }
    }

    /// Ends the streams that read it.
    pub(super) fn end_readers(&mut self, streams: &mut Streams) {
        for reader in self.readers.drain(..) {
            streams.finish(reader, End::Whole);
        }
    }
}

impl Exec {
    /// Waits for what can be done now.
    pub(super) fn watch(&mut self, streams: &Streams) {
        for output in self.outputs() {
            let readable = output.may_read(streams);
            if let Some(source) = &mut output.source {
                source.want(readable, false);
            }
        }
        if let Some(input) = &mut self.input {
            let waiting = input.feed.as_ref().is_some_and(|feed| feed.queue.has_bytes());
            input.sink.want(false, waiting);
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.control.want(true, !keeper.unsent.is_empty());
        }
    }
}
