//! Calls of an environment's functions and attributes.

use super::batch::{Spread, Work};
use super::begin::{invalid_body, spread};
use crate::channel::error::RequestError;
use crate::channel::request::{self, CallKind};
use crate::rows::pack::Asked;
use crate::rows::row::Task;
use crate::shard::{Shard, parse};
use crate::values::{items, strings};

const RESERVED: [&str; 3] = ["reset", "step", "close"];

impl Shard {
    /// What a call request asks for.
    pub(crate) fn call_work(
        &self,
        head: &[u8],
        offset: usize,
        count: usize,
        body: &[u8],
    ) -> Result<Work, RequestError> {
        let call: request::Call = parse(head)?;
        if call.call == CallKind::Call && RESERVED.contains(&call.name.as_str()) {
            return Err(RequestError::invalid(format!("received a call of '{}', expected the pool's own", call.name)));
        }
        let mut members = Vec::new();
        members.extend_from_slice(b",\"name\":");
        strings::write(&mut members, &call.name);
        let mut values = Spread::Nothing;
        match call.call {
            CallKind::Call => {
                append_member(&mut members, body, "args", b"[]")?;
                append_member(&mut members, body, "kwargs", b"{}")?;
            }
            CallKind::Set => {
                values = spread(body, "values", |_| call.per_row, call.total, offset, count)?;
            }
            _ => {}
        }
        let deadline_ms = call.deadline_ms.unwrap_or(self.settings.deadlines_ms.call);
        Ok(Work::Call { kind: call.call, members, values, deadline_ms })
    }

    /// One row of a call.
    pub(crate) fn call_row(&mut self, local: usize, slot: usize) {
        if self.rows[local].error.is_some() {
            return self.repeat_error(local);
        }
        let number = self.rows[local].pack;
        if self.is_packed(number) {
            return self.queue_call(local);
        }
        let mut line = std::mem::take(&mut self.line);
        self.begin_line(number, &mut line);
        let Some((message, deadline_ms)) = self.message_of(local).and_then(|message| match &message.work {
            Work::Call { deadline_ms, .. } => Some((message, *deadline_ms)),
            _ => None,
        }) else {
            return;
        };
        if let Work::Call { kind, members, values, .. } = &message.work {
            line.extend_from_slice(b",\"op\":\"");
            line.extend_from_slice(kind.op().as_bytes());
            line.push(b'"');
            line.extend_from_slice(members);
            if *kind == CallKind::Set {
                line.extend_from_slice(b",\"value\":");
                match values.of(slot) {
                    Some(place) => items::append_line_safe(&mut line, &message.body[place]),
                    None => line.extend_from_slice(b"null"),
                }
            }
        }
        line.extend_from_slice(b"}\n");
        self.rows[local].task = Task::Call;
        self.ask(number, Asked::Call, &line, deadline_ms);
        self.line = line;
    }
}

fn append_member(members: &mut Vec<u8>, body: &[u8], name: &str, default: &[u8]) -> Result<(), RequestError> {
    let place = if body.is_empty() {
        None
    } else {
        items::member(body, name.as_bytes()).map_err(|fault| invalid_body(&fault))?
    };
    members.extend_from_slice(b",\"");
    members.extend_from_slice(name.as_bytes());
    members.extend_from_slice(b"\":");
    match place {
        Some(place) => items::append_line_safe(members, &body[place]),
        None => members.extend_from_slice(default),
    }
    Ok(())
}
