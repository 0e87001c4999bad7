//! The first line of a row's process.

use crate::event_loop::{Source, Token};
use crate::rows::error::{ErrorKind, ReportedError, RowError};
use crate::shard::Shard;
use crate::values::fault::{Fault, excerpt};
use crate::values::reply::{self, Reply};
use crate::values::rewrite::{Arrays, rewrite};
use crate::values::scan::scan_value;
use serde::Deserialize;

/// A hello becomes part of a frame's head.
const HELLO_LIMIT_BYTES: usize = 4 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Hello {
    index: Option<u32>,
    pid: Option<i32>,
    features: Vec<String>,
    rows: Option<u32>,
}

impl Shard {
    /// A line of a process that has not said hello; `pipes`: from standard output.
    pub(crate) fn hello_answer(&mut self, local: usize, pipes: bool, line: &[u8]) {
        let Some(process) = &self.rows[local].process else {
            return;
        };
        if line.len() > HELLO_LIMIT_BYTES {
            let fault = Fault::new(format!("{} bytes, more than {HELLO_LIMIT_BYTES}", line.len()));
            return self.bad_hello(local, &fault, line);
        }
        let forked = self.starts.by_fork;
        let undecided = process.pipes.is_some();
        let scanned = reply::scan(line);
        let reply = match scanned {
            Ok(reply) if reply.id.is_some() => reply,
            _ if undecided => {
                let log = &mut self.rows[local].log;
                log.push(line);
                return log.push(b"\n");
            }
            Ok(_) => return self.bad_hello(local, &Fault::new("no id"), line),
            Err(fault) => return self.bad_hello(local, &fault, line),
        };
        if undecided {
            self.choose_stream(local, pipes);
        }
        if let Err(fault) = self.take_hello(local, &reply, line, forked) {
            self.bad_hello(local, &fault, line);
        }
    }

    fn take_hello(&mut self, local: usize, reply: &Reply<'_>, line: &[u8], forked: bool) -> Result<(), Fault> {
        let expected_id = if forked { 0 } else { 1 };
        if reply.id != Some(expected_id) {
            return Err(Fault::new(format!("its id is {:?}, expected {expected_id}", reply.id)));
        }
        if let Some(member) = reply.error {
            let error = ReportedError::parse(member.text);
            if forked || error.traceback.is_some() {
                self.start_failed(local, error.into_error("hello"));
                return Ok(());
            }
            // A program without hello is served with the plain reset and step subset.
            self.note_hello(local, br#"{"ok":true,"protocol":1,"features":[],"rows":1}"#);
            self.became_ready(local);
            return Ok(());
        }
        let hello: Hello = serde_json::from_slice(line).map_err(|error| Fault::new(error.to_string()))?;
        let index = self.rows[local].index;
        if hello.index.is_some_and(|announced| announced != index) {
            return Err(Fault::new(format!("its index is {:?}, expected {index}", hello.index)));
        }
        if hello.rows.unwrap_or(1) != 1 {
            return Err(Fault::new(format!("it announces {:?} rows, expected 1", hello.rows)));
        }
        if let (true, Some(pid)) = (forked, hello.pid) {
            let epoch = self.rows[local].epoch;
            self.learn_pid(local, pid);
            if self.rows[local].epoch != epoch {
                return Ok(());
            }
        }
        if let Some(process) = &mut self.rows[local].process {
            process.takes_raw = hello.features.iter().any(|feature| feature == "raw");
        }
        self.note_hello(local, line);
        self.became_ready(local);
        Ok(())
    }

    /// The stream that answered first is the row's; the other one is closed.
    fn choose_stream(&mut self, local: usize, pipes: bool) {
        let row = &mut self.rows[local];
        let Some(process) = &mut row.process else {
            return;
        };
        let Some(mut other) = process.pipes.take() else {
            return;
        };
        if pipes {
            std::mem::swap(&mut other, &mut process.stream);
            let token = Token::row(Source::Row, local, row.epoch);
            let _ = self.poller.change_edge(process.stream.reading(), token, false);
        }
        self.poller.remove(other.reading());
    }

    fn bad_hello(&mut self, local: usize, fault: &Fault, line: &[u8]) {
        let message = format!("the answer to hello is not one: {fault}; received '{}'", excerpt(line));
        self.start_failed(local, RowError::new(ErrorKind::Protocol, "hello", message));
    }

    /// Keeps the first row's hello for the reply of the start.
    fn note_hello(&mut self, local: usize, line: &[u8]) {
        if let Some(creation) = self.creation.as_mut().filter(|_| local == 0) {
            let mut text = Vec::with_capacity(line.len());
            if scan_value(line).is_ok_and(|found| found.special()) {
                // A line that was scanned can be rewritten, unless an array in it is no base64: then it is left out.
                if rewrite(line, &[], Arrays::Tagged, &mut text).is_err() {
                    text = b"{}".to_vec();
                }
            } else {
                text.extend_from_slice(line);
            }
            creation.hello = text;
        }
    }
}
