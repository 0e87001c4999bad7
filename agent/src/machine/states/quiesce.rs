//! `quiesce`: nothing is read from programs or said to the worker until `thaw`. Programs run on.

use crate::channel::frame::Kind;
use crate::channel::request::Operation;
use crate::machine::connection::Filled;
use crate::machine::run::{Answered, Machine};
use serde_json::json;
use std::time::Instant;

/// A frame that came in the silence.
struct Early {
    kind: u16,
    sequence: u32,
    head: Vec<u8>,
    body: Vec<u8>,
}

/// The silence.
pub struct Quiet {
    /// Deadlines are compared with this clock, so that what it counts in the silence is what they are moved by.
    pub(super) since: Instant,
    early: Vec<Early>,
}

impl Machine {
    /// Begins the silence; asked again in it, the answer is the same.
    pub(in crate::machine) fn quiesce(&mut self) -> Answered {
        self.quiet.get_or_insert_with(|| Quiet { since: Instant::now(), early: Vec::new() });
        Answered::now(json!({}))
    }

    /// A turn of the loop in the silence: what was said before it goes out, and only its end is listened for.
    pub(in crate::machine) fn quiet_turn(&mut self) {
        self.connection.wait_in_silence();
        self.connection.reopen(Instant::now());
        self.connection.flush();
        match self.connection.fill() {
            Filled::Some => self.handle_frames(),
            Filled::Nothing => {}
            Filled::Lost => {
                self.new_connection();
                self.forget_early();
            }
        }
    }

    /// What waits for the end of the silence belongs to a connection that is gone.
    pub(super) fn forget_early(&mut self) {
        if let Some(quiet) = &mut self.quiet {
            quiet.early.clear();
        }
    }

    /// Whether a frame has to wait for the end of the silence; then it is kept.
    pub(in crate::machine) fn is_early(&mut self, kind: u16, sequence: u32, head: &[u8], body: &[u8]) -> bool {
        let Some(quiet) = &mut self.quiet else { return false };
        let operation =
            if kind == Kind::Request as u16 { serde_json::from_slice::<Operation>(head).ok() } else { None };
        match operation.as_ref().map(|operation| operation.op.as_ref()) {
            Some("quiesce" | "thaw") => false,
            // The server that asked for the silence is gone, and the next one begins.
            Some("machine") => {
                self.end_silence();
                false
            }
            _ => {
                quiet.early.push(Early { kind, sequence, head: head.to_vec(), body: body.to_vec() });
                true
            }
        }
    }

    /// Ends the silence: deadlines are as far away as they were when it began, and what came in it is handled.
    pub(in crate::machine) fn end_silence(&mut self) {
        let Some(quiet) = self.quiet.take() else { return };
        self.move_deadlines(quiet.since.elapsed());
        for Early { kind, sequence, head, body } in quiet.early {
            self.handle(kind, sequence, &head, &body);
        }
    }
}
