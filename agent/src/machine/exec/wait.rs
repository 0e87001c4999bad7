//! `exec.wait`

use super::Wait;
use crate::channel::error::RequestError;
use crate::channel::writer::Part;
use crate::machine::mailbox::Reply;
use crate::machine::run::{Answered, Machine, Ticket};
use serde::Deserialize;
use std::time::Instant;

/// The head of the request.
#[derive(Debug, Deserialize)]
pub struct Waiting {
    id: String,
    #[serde(default)]
    collect: bool,
}

impl Machine {
    /// Answers with the outcome once the call has ended.
    pub(in crate::machine) fn exec_wait(
        &mut self,
        ticket: Ticket,
        request: &Waiting,
    ) -> Result<Answered, RequestError> {
        let slot = self.exec_slot(&request.id)?;
        let exec = self.execs.of_slot(slot).expect("found a moment ago");
        let wait = Wait { ticket, collect: request.collect };
        if exec.closed {
            self.exec_answer(slot, &wait);
        } else {
            exec.waits.push(wait);
        }
        Ok(Answered::Later)
    }

    pub(super) fn exec_answer(&mut self, slot: u32, wait: &Wait) {
        let Some(exec) = self.execs.of_slot(slot) else { return };
        exec.owed = (!wait.collect).then(Instant::now);
        let head = exec.outcome();
        let mut body = Vec::new();
        if wait.collect {
            for output in exec.outputs() {
                body.extend(output.kept.parts().iter().map(|part| Part::Own(part.to_vec())));
            }
        }
        self.reply(wait.ticket, Ok(Reply { head, body }));
    }
}
