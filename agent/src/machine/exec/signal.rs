//! `exec.signal`, `exec.resize`, `exec.forget`

use crate::channel::error::RequestError;
use crate::machine::keeper::Order;
use crate::machine::run::{Answered, Machine, Ticket};
use crate::machine::{pty, signals};
use serde::Deserialize;
use serde_json::json;

/// The head of `exec.signal`.
#[derive(Debug, Deserialize)]
pub struct Signalling {
    id: String,
    signal: String,
    #[serde(default)]
    tree: bool,
}

/// The head of `exec.resize`.
#[derive(Debug, Deserialize)]
pub struct Resizing {
    id: String,
    #[serde(flatten)]
    size: pty::Size,
}

/// The head of `exec.forget`.
#[derive(Debug, Deserialize)]
pub struct Forgetting {
    id: String,
}

impl Machine {
    /// Signals the program, or everything below its keeper. KILL to the tree goes on until nothing is left.
    pub(in crate::machine) fn exec_signal(
        &mut self,
        ticket: Ticket,
        request: &Signalling,
    ) -> Result<Answered, RequestError> {
        let slot = self.exec_slot(&request.id)?;
        let Some(signal) = signals::number(&request.signal) else {
            return Err(RequestError::invalid(format!(
                "signal is {:?}; expected a name such as TERM, INT, KILL or USR1",
                request.signal
            )));
        };
        let exec = self.execs.of_slot(slot).expect("found a moment ago");
        if exec.starting.is_some() {
            return Err(RequestError::invalid(format!("exec {} is being started still", request.id)));
        }
        let Some(keeper) = &mut exec.keeper else { return Ok(Answered::now(json!({"signalled": 0}))) };
        let order = self.next_order;
        self.next_order = order.wrapping_add(1);
        keeper.order(&Order::Signal { order, signal, tree: request.tree });
        exec.orders.insert(order, ticket);
        Ok(Answered::Later)
    }

    /// Changes the size of a program's terminal.
    pub(in crate::machine) fn exec_resize(&mut self, request: &Resizing) -> Result<Answered, RequestError> {
        let slot = self.exec_slot(&request.id)?;
        let exec = self.execs.of_slot(slot).expect("found a moment ago");
        let Some(terminal) = &exec.terminal else {
            return Err(RequestError::invalid(format!("exec {} has no terminal", request.id)));
        };
        pty::resize(terminal, &request.size)
            .map_err(|error| RequestError::invalid(format!("the terminal of exec {}: {error}", request.id)))?;
        Ok(Answered::now(json!({})))
    }

    /// Takes a finished exec off the list.
    pub(in crate::machine) fn exec_forget(&mut self, request: &Forgetting) -> Result<Answered, RequestError> {
        let slot = self.exec_slot(&request.id)?;
        let exec = self.execs.of_slot(slot).expect("found a moment ago");
        if exec.left || !exec.closed {
            return Err(RequestError::invalid(format!(
                "exec {} is {}; expected a finished one",
                request.id,
                exec.state()
            ))
            .with_hint("end it with exec.signal KILL, tree true"));
        }
        self.execs.slots.remove(&slot);
        Ok(Answered::now(json!({})))
    }
}
