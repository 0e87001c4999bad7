//! Both directions of a connection, each ended on its own.

use super::{Port, connect};
use crate::machine::run::Machine;
use crate::machine::streams::{CHUNK_BYTES, End};
use std::io;

/// Reads of one connection in one turn.
const READS: usize = 8;

impl Machine {
    /// A socket is ready.
    pub(in crate::machine) fn port_ready(&mut self, slot: u32) {
        self.port_dialled(slot);
        if let Some(port) = self.ports.slots.get_mut(&slot).filter(|port| port.dialling.is_none()) {
            port.read(&mut self.scratch);
        }
    }

    /// Passes on what has arrived for programs.
    pub(in crate::machine) fn ports_move(&mut self) {
        self.ports.slots.values_mut().filter(|port| port.dialling.is_none()).for_each(Port::write);
    }

    /// Waits for what can be done now; connections that ended both ways go.
    pub(in crate::machine) fn ports_watch(&mut self) {
        self.ports.slots.retain(|_, port| port.dialling.is_some() || port.out.is_some() || port.input.is_some());
        for port in self.ports.slots.values_mut() {
            let readable = port.out.as_ref().is_some_and(|out| out.has_room());
            let waiting = port.input.as_ref().is_some_and(|input| input.has_bytes());
            let dialling = port.dialling.is_some();
            port.socket.want(readable && !dialling, waiting || dialling);
        }
    }

    /// The worker is gone: nobody is left to speak to.
    pub(in crate::machine) fn ports_end_all(&mut self) {
        self.ports.slots.clear();
    }
}

impl Port {
    fn read(&mut self, scratch: &mut Vec<u8>) {
        for _ in 0..READS {
            let Some(out) = self.out.as_ref() else { return };
            if out.is_cancelled() {
                self.out = None;
                return;
            }
            if !out.has_room() {
                return;
            }
            scratch.clear();
            match crate::system::read_into(self.socket.raw(), scratch, CHUNK_BYTES) {
                Ok(0) => self.end_out(End::Whole),
                Ok(_) => out.push(scratch),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.end_out(End::Failed("port_reset", format!("port {}: {error}", self.number))),
            }
        }
    }

    fn end_out(&mut self, end: End) {
        if let Some(out) = self.out.take() {
            out.finish(end);
        }
    }

    fn write(&mut self) {
        if self.out.as_ref().is_some_and(|out| out.is_cancelled()) {
            self.out = None;
        }
        let Some(input) = &self.input else { return };
        while input.has_bytes() {
            match input.take_with(|bytes| send(self.socket.raw(), bytes)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    input.close();
                    self.input = None;
                    return;
                }
            }
        }
        if let Some(end) = input.ended() {
            if end == End::Whole {
                connect::end_writing(self.socket.raw());
            } else {
                // A half that broke is not an end: the program must not take it for one.
                self.end_out(End::Failed("port_reset", "the other direction has failed".to_owned()));
            }
            self.input = None;
        }
    }
}

fn send(socket: i32, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are valid for their length.
    let count = unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}
