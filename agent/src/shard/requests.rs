//! The worker's requests, one after another.

use super::Shard;
use crate::channel::error::RequestError;
use crate::channel::request::{FixLayout, Logs, Observe, Operation, Packing, Status};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::io;

/// A head as the struct that its operation needs.
pub(crate) fn parse<'a, T: Deserialize<'a>>(head: &'a [u8]) -> Result<T, RequestError> {
    serde_json::from_slice(head).map_err(|error| RequestError::invalid(format!("the head of the request: {error}")))
}

/// A frame whose head is no JSON object belongs to the damage of the channel, as on the worker's side.
fn is_object(head: &[u8]) -> bool {
    serde_json::from_slice::<Map<String, Value>>(head).is_ok()
}

impl Shard {
    /// Reads once from the channel and handles what is whole.
    pub(crate) fn read_requests(&mut self) -> io::Result<()> {
        match self.worker.reader.fill(self.worker.socket) {
            Ok(0) => self.worker.gone = true,
            Ok(_) => self.handle_requests(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.worker.gone = true,
        }
        Ok(())
    }

    /// Handles the frames that are there.
    pub(crate) fn handle_requests(&mut self) {
        while let Some(frame) = self.worker.reader.next_frame() {
            let head = self.worker.reader.bytes(&frame.head).to_vec();
            let mut body = std::mem::take(&mut self.worker.body);
            self.worker.reader.consume(&frame, &mut body);
            const REQUEST: u16 = 1;
            if frame.kind == REQUEST
                && let Err(error) = self.handle_request(frame.sequence, &head, &mut body)
            {
                self.worker.refuse(frame.sequence, &error);
            }
            self.worker.body = body;
        }
    }

    fn handle_request(&mut self, sequence: u32, head: &[u8], body: &mut Vec<u8>) -> Result<(), RequestError> {
        let operation = match parse::<Operation>(head) {
            Err(_) if !is_object(head) => return Ok(()),
            parsed => parsed?,
        };
        let op = operation.op.as_str();
        if self.closing.is_some() {
            return Err(RequestError::new("pool_closed", format!("received {op} after close")));
        }
        match op {
            "step" | "reset" | "call" => {
                self.accept_batch(op)?;
                self.accept_while_nothing_is_out(op)?;
                self.begin_batch(sequence, op, head, body)
            }
            "send" => {
                self.accept_batch(op)?;
                self.send(sequence, head, body)
            }
            "branch" => {
                self.accept_batch(op)?;
                self.accept_while_nothing_is_out(op)?;
                self.begin_branch(sequence, head)
            }
            "settle" => {
                self.accept_while_idle(op)?;
                self.settle(sequence, head)
            }
            "unsettle" => self.unsettle(sequence),
            "drop" => {
                self.accept_batch(op)?;
                self.drop_states(sequence, head)
            }
            "pack" => self.choose_packing(sequence, &parse::<Packing>(head)?),
            "layout" => {
                self.accept_batch(op)?;
                self.fix_layout(sequence, &parse::<FixLayout>(head)?)
            }
            "observe" => self.observe(sequence, parse::<Observe>(head)?.encoding),
            "status" => self.tell_status(sequence, parse::<Status>(head)?.memory),
            "logs" => self.tell_logs(sequence, parse::<Logs>(head)?.row),
            "close" => {
                self.begin_close(sequence);
                Ok(())
            }
            "start" => Err(RequestError::new("conflict", "received a second start, expected one for each agent")),
            other => Err(RequestError::invalid(format!(
                "received the operation '{}', expected pack, layout, reset, step, call, send, branch, settle, \
                 unsettle, drop, observe, status, logs or close",
                other.escape_debug()
            ))),
        }
    }

    /// Whether something that the rows work on may begin.
    fn accept_batch(&self, op: &str) -> Result<(), RequestError> {
        self.accept_while_idle(op)?;
        if self.branches.phase.is_none() {
            return Ok(());
        }
        Err(RequestError::new("pool_busy", format!("received {op} between branch and settle"))
            .with_hint("send settle or unsettle first"))
    }

    fn accept_while_idle(&self, op: &str) -> Result<(), RequestError> {
        if self.broken {
            return Err(RequestError::new("conflict", format!("received {op}, but the start failed"))
                .with_hint("send close, and start a new agent"));
        }
        if self.creation.is_some() {
            return Err(RequestError::new("pool_busy", format!("received {op} before the start was answered")));
        }
        if self.batch.is_some() {
            return Err(RequestError::new("pool_busy", format!("received {op} while a batch runs"))
                .with_hint("wait for its reply"));
        }
        Ok(())
    }
}
