//! Takes a message in: its rows are out from now on. Nothing is noted before all of it was checked.

use super::{Out, Stage};
use crate::batches::batch::Message;
use crate::batches::begin::{invalid_body, plain_body};
use crate::channel::error::RequestError;
use crate::channel::request::{self, Encoding, SendKind};
use crate::rows::row::Task;
use crate::shard::{Shard, parse};
use serde_json::json;
use std::rc::Rc;

impl Shard {
    /// Sends rows off; what they answer is told by `results` events.
    pub(crate) fn send(&mut self, sequence: u32, head: &[u8], body: &mut Vec<u8>) -> Result<(), RequestError> {
        let message = Rc::new(self.check_message(head, body)?);
        self.note_out(&message);
        self.worker.reply(sequence, br#"{"ok":true}"#, []);
        self.dispatch_stream();
        // Steps that have all been written leave their memory to the next request.
        if let Some(message) = Rc::into_inner(message) {
            *body = message.body;
        }
        Ok(())
    }

    /// Batches wait until no row is out.
    pub(crate) fn accept_while_nothing_is_out(&self, op: &str) -> Result<(), RequestError> {
        let count = self.stream.count;
        if count == 0 {
            return Ok(());
        }
        Err(RequestError::new("pool_busy", format!("received {op} while {count} rows are out on the stream"))
            .with_hint("receive their results first")
            .with_details(json!({"out": count})))
    }

    fn check_message(&mut self, head: &[u8], body: &mut Vec<u8>) -> Result<Message, RequestError> {
        let request: request::Send = parse(head)?;
        self.require_layout("send")?;
        let rows = self.select(request.rows.as_deref())?;
        self.require_in(&rows)?;
        plain_body(body).map_err(|fault| invalid_body(&fault))?;
        let work = match request.kind {
            SendKind::Step => self.step_work(head, request.offset, rows.len(), body)?,
            SendKind::Reset => self.reset_work(head, request.offset, rows.len(), body)?,
        };
        let message = Message { encoding: request.encoding, work, rows, body: std::mem::take(body) };
        self.check_vector(&message)?;
        if request.kind == SendKind::Reset {
            self.take_new_seed(head)?;
        }
        Ok(message)
    }

    /// A row has at most one thing out.
    fn require_in(&self, rows: &[usize]) -> Result<(), RequestError> {
        let out = rows.iter().filter(|local| self.stream.of(**local).is_some());
        let out: Vec<u32> = out.map(|local| self.rows[*local].index).collect();
        if out.is_empty() {
            return Ok(());
        }
        Err(RequestError::invalid(format!(
            "received the rows {out:?}, which are out already, expected rows that are not"
        ))
        .with_hint("receive their results first")
        .with_details(json!({"out": out})))
    }

    fn note_out(&mut self, message: &Rc<Message>) {
        self.forget_quiet();
        let stream = &mut self.stream;
        stream.out.resize_with(self.rows.len(), || None);
        if stream.count == 0 {
            stream.late_told = self.counters.late_replies;
        }
        stream.count += message.rows.len();
        stream.waiting.extend(&message.rows);
        for (slot, local) in message.rows.iter().enumerate() {
            stream.out[*local] = Some(Out::new(message));
            let row = &mut self.rows[*local];
            row.slot = slot;
            row.task = Task::None;
            row.info.clear();
        }
    }
}

impl Out {
    fn new(message: &Rc<Message>) -> Self {
        Self {
            message: Some(Rc::clone(message)),
            is_step: message.is_step(),
            binary: message.encoding == Encoding::Binary,
            stage: Stage::Waiting,
            reward: 0.0,
            terminated: false,
            truncated: false,
            failed: false,
            straggler: false,
            took_us: 0,
        }
    }
}
