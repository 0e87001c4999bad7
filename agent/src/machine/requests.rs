//! Which request goes where.

use super::connection::Filled;
use super::run::{Answered, Machine, Ticket};
use super::streams::End;
use crate::channel::error::RequestError;
use crate::channel::frame::Kind;
use crate::channel::request::Operation;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Reads of the channel in one turn of the loop.
const READS: usize = 16;

/// Heads of data frames.
#[derive(Deserialize)]
struct DataHead {
    s: u64,
    #[serde(default)]
    end: bool,
    #[serde(default)]
    error: Option<DataError>,
}

#[derive(Deserialize)]
struct DataError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// Events of the worker and of the shim.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Credit { s: u64, bytes: usize },
    Cancel { s: u64 },
    Disconnected,
}

impl Machine {
    /// Reads frames and does what they say.
    pub(super) fn receive(&mut self) {
        for _ in 0..READS {
            match self.connection.fill() {
                Filled::Some => {}
                Filled::Nothing => return,
                Filled::Lost => {
                    self.new_connection();
                    return;
                }
            }
            self.handle_frames();
            if self.quiet.is_some() {
                return;
            }
        }
    }

    /// Handles the whole frames that were read.
    pub(super) fn handle_frames(&mut self) {
        let mut body = Vec::new();
        while let Some(frame) = self.connection.reader.next_frame() {
            let head = self.connection.reader.bytes(&frame.head).to_vec();
            self.connection.reader.consume(&frame, &mut body);
            if !self.is_early(frame.kind, frame.sequence, &head, &body) {
                self.handle(frame.kind, frame.sequence, &head, &body);
            }
        }
    }

    pub(super) fn handle(&mut self, kind: u16, sequence: u32, head: &[u8], body: &[u8]) {
        if kind == Kind::Data as u16 {
            if let Ok(head) = serde_json::from_slice::<DataHead>(head) {
                self.receive_data(head, body);
            }
        } else if kind == Kind::Event as u16 {
            if let Ok(event) = serde_json::from_slice::<Event>(head) {
                self.receive_event(&event);
            }
        } else if kind == Kind::Request as u16
            && let Ok(operation) = serde_json::from_slice::<Operation>(head)
        {
            if operation.op == "machine" {
                self.new_connection();
            }
            let ticket = Ticket { epoch: self.connection.epoch, sequence };
            match self.request(ticket, &operation.op, head) {
                // Not by the ticket: a restored machine has a new connection by now.
                Ok(Answered::Now(answer)) => self.connection.reply(sequence, Ok(answer.into())),
                Ok(Answered::Later) => {}
                Err(error) => return self.reply(ticket, Err(error)),
            }
            if operation.op == "thaw" {
                self.end_silence();
            }
        }
    }

    fn receive_data(&mut self, head: DataHead, body: &[u8]) {
        let end = match head.error {
            Some(error) => Some(End::Failed("stream_failed", format!("{} {}", error.code, error.message))),
            None => head.end.then_some(End::Whole),
        };
        self.streams.deliver(head.s, body, end);
    }

    fn receive_event(&mut self, event: &Event) {
        match *event {
            Event::Credit { s, bytes } => self.streams.credit(s, bytes),
            Event::Cancel { s } => {
                if let Some(post) = self.streams.cancel(s) {
                    self.reply(post.ticket, post.result.map(Into::into));
                }
            }
            Event::Disconnected => self.new_connection(),
        }
    }

    /// What belonged to the connection before ends; programs live on.
    pub(super) fn new_connection(&mut self) {
        self.connection.epoch = self.connection.epoch.wrapping_add(1);
        self.streams.end_all();
        self.ports_end_all();
    }

    fn request(&mut self, ticket: Ticket, operation: &str, head: &[u8]) -> Result<Answered, RequestError> {
        if self.stopping.is_some() {
            return Err(RequestError::new("machine_state", "the machine is stopping; it takes no more requests"));
        }
        match operation {
            "machine" => self.start(parse(head)?),
            "exec.start" => self.exec_start(ticket, parse(head)?),
            "exec.attach" => self.exec_attach(&parse(head)?),
            "exec.input" => self.exec_input(ticket, &parse(head)?),
            "exec.wait" => self.exec_wait(ticket, &parse(head)?),
            "exec.signal" => self.exec_signal(ticket, &parse(head)?),
            "exec.resize" => self.exec_resize(&parse(head)?),
            "exec.list" => Ok(self.exec_list()),
            "exec.forget" => self.exec_forget(&parse(head)?),
            "file.write" => self.file_write(ticket, parse(head)?),
            "file.read" => self.file_read(ticket, parse(head)?),
            "file.stat" => self.file_stat(ticket, parse(head)?),
            "file.list" => self.file_list(ticket, parse(head)?),
            "file.make" => self.file_make(ticket, parse(head)?),
            "file.move" => self.file_move(ticket, parse(head)?),
            "file.remove" => self.file_remove(ticket, parse(head)?),
            "file.watch" => self.file_watch(ticket, parse(head)?),
            "tree.write" => self.tree_write(ticket, parse(head)?),
            "tree.read" => self.tree_read(ticket, parse(head)?),
            "port.dial" => self.port_dial(ticket, &parse(head)?),
            "port.list" => self.port_list(ticket),
            "quiesce" => Ok(self.quiesce()),
            "thaw" => self.thaw(parse(head)?),
            "stop" => self.stop(ticket, &parse(head)?),
            other => Err(RequestError::invalid(format!("op is {other:?}; expected one of docs/internals/machines.md"))),
        }
    }
}

fn parse<T: DeserializeOwned>(head: &[u8]) -> Result<T, RequestError> {
    serde_json::from_slice(head).map_err(|error| RequestError::invalid(format!("the head of the request: {error}")))
}
