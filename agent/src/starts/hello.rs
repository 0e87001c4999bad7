//! The first line of a pack's process.

use crate::channel::error::RequestError;
use crate::channel::request::{Autoreset, AutoresetWish};
use crate::event_loop::{Source, Token};
use crate::rows::error::{ErrorKind, ReportedError, RowError};
use crate::rows::vector::Vector;
use crate::shard::Shard;
use crate::values::fault::{Fault, excerpt};
use crate::values::reply::{self, Reply};
use crate::values::rewrite::{Arrays, rewrite};
use crate::values::scan::scan_value;
use serde::Deserialize;
use serde_json::json;

/// What stands in the way of a program that could say more itself.
const NO_BATCH: &str = "it does not announce the feature batch (one environment object cannot be several: in Python \
                        use serve(make=…))";
/// A hello becomes part of a frame's head.
const HELLO_LIMIT_BYTES: usize = 4 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Hello {
    index: Option<u32>,
    pid: Option<i32>,
    features: Vec<String>,
    rows: Option<u32>,
    vector: Option<Vector>,
}

impl Shard {
    /// A line of a process that has not said hello; `pipes`: from standard output.
    pub(crate) fn hello_answer(&mut self, number: usize, pipes: bool, line: &[u8]) {
        let Some(process) = &self.packs[number].process else {
            return;
        };
        if line.len() > HELLO_LIMIT_BYTES {
            let fault = Fault::new(format!("{} bytes, more than {HELLO_LIMIT_BYTES}", line.len()));
            return self.bad_hello(number, &fault, line);
        }
        let forked = self.starts.by_fork;
        let undecided = process.pipes.is_some();
        let scanned = reply::scan(line);
        let reply = match scanned {
            Ok(reply) if reply.id.is_some() => reply,
            _ if undecided => {
                let log = &mut self.packs[number].log;
                log.push(line);
                return log.push(b"\n");
            }
            Ok(_) => return self.bad_hello(number, &Fault::new("no id"), line),
            Err(fault) => return self.bad_hello(number, &fault, line),
        };
        if undecided {
            self.choose_stream(number, pipes);
        }
        if let Err(fault) = self.take_hello(number, &reply, line, forked) {
            self.bad_hello(number, &fault, line);
        }
    }

    fn take_hello(&mut self, number: usize, reply: &Reply<'_>, line: &[u8], forked: bool) -> Result<(), Fault> {
        let expected_id = if forked { 0 } else { 1 };
        if reply.id != Some(expected_id) {
            return Err(Fault::new(format!("its id is {:?}, expected {expected_id}", reply.id)));
        }
        if let Some(member) = reply.error {
            let error = ReportedError::parse(member.text);
            if error.kind.as_deref() == Some("packing_unsupported") {
                self.cannot_pack(number, error.message.as_deref().unwrap_or("no reason was given"));
            } else if forked || error.traceback.is_some() {
                self.start_failed(number, error.into_error("hello"));
            } else if self.packs[number].is_shared() {
                self.cannot_pack(number, "the program does not answer hello");
            } else {
                // A program without hello is served with the plain reset and step subset.
                self.note_hello(number, br#"{"ok":true,"protocol":1,"features":[],"rows":1}"#);
                self.became_ready(number);
            }
            return Ok(());
        }
        let hello: Hello = serde_json::from_slice(line).map_err(|error| Fault::new(error.to_string()))?;
        let index = self.rows[self.packs[number].rows.start].index;
        if hello.index.is_some_and(|announced| announced != index) {
            return Err(Fault::new(format!("its index is {:?}, expected {index}", hello.index)));
        }
        let (rows, features) = (self.packs[number].rows.len(), &hello.features);
        let has = |feature: &str| features.iter().any(|known| known == feature);
        if (rows > 1 || hello.vector.is_some()) && !has("batch") {
            self.cannot_pack(number, NO_BATCH);
            return Ok(());
        }
        if hello.rows.unwrap_or(1) as usize != rows {
            return Err(Fault::new(format!("it announces {:?} rows, expected {rows}", hello.rows)));
        }
        if let (true, Some(pid)) = (forked, hello.pid) {
            let epoch = self.packs[number].epoch;
            self.learn_pid(number, pid);
            if self.packs[number].epoch != epoch {
                return Ok(());
            }
        }
        let pack = &mut self.packs[number];
        pack.packed = (rows > 1 || hello.vector.is_some()).then(Box::default);
        if let Some(process) = &mut pack.process {
            process.takes_raw = has("raw");
            process.forks_live = has("fork");
            process.keeps_state = has("state");
        }
        if let Some(creation) = &mut self.creation {
            creation.packable = has("batch");
            if let Err(refusal) = self.settle_vector(hello.vector) {
                self.refuse_creation(&refusal);
                return Ok(());
            }
        }
        self.note_hello(number, line);
        self.became_ready(number);
        Ok(())
    }

    /// A program whose process cannot have several rows.
    fn cannot_pack(&mut self, number: usize, why: &str) {
        let rows = self.packs[number].rows.len();
        let message = format!("the program cannot hold {rows} rows in one process: {why}");
        if self.creation.is_none() || self.is_probe(number) {
            return self.start_failed(number, RowError::new(ErrorKind::Protocol, "hello", message));
        }
        let refusal = RequestError::new("packing_unsupported", message)
            .with_hint("use envs_per_process=1, or serve(make=…), with which each row gets an environment of its own")
            .with_details(json!({"rows_per_process": rows}));
        self.refuse_creation(&refusal);
    }

    /// A vectorised environment brings its own mode at the end of an episode.
    fn settle_vector(&mut self, vector: Option<Vector>) -> Result<(), RequestError> {
        let Some(vector) = vector else {
            return Ok(());
        };
        let wanted = self.settings.autoreset.filter(|wish| *wish != AutoresetWish::Auto).and(self.autoreset);
        let own = vector.autoreset;
        if wanted.is_some() && wanted != own {
            let name = |mode: Option<Autoreset>| mode.map_or("null", Autoreset::name);
            let message = format!(
                "received autoreset {}, but the vectorised environment {} has the mode {}",
                name(wanted),
                vector.class,
                name(own)
            );
            return Err(RequestError::new("vectorized_unsupported", message)
                .with_hint("use autoreset \"auto\", or make the environment with the mode that you need")
                .with_details(json!({"class": vector.class, "autoreset": own.map(Autoreset::name)})));
        }
        self.autoreset = own;
        self.vector = Some(vector);
        Ok(())
    }

    /// The stream that answered first is the pack's; the other one is closed.
    fn choose_stream(&mut self, number: usize, pipes: bool) {
        let pack = &mut self.packs[number];
        let Some(process) = &mut pack.process else {
            return;
        };
        let Some(mut other) = process.pipes.take() else {
            return;
        };
        if pipes {
            std::mem::swap(&mut other, &mut process.stream);
            let token = Token::of_pack(Source::Pack, number, pack.epoch);
            let _ = self.poller.change_edge(process.stream.reading(), token, false);
        }
        self.poller.remove(other.reading());
    }

    fn bad_hello(&mut self, number: usize, fault: &Fault, line: &[u8]) {
        let message = format!("the answer to hello is not one: {fault}; received '{}'", excerpt(line));
        self.start_failed(number, RowError::new(ErrorKind::Protocol, "hello", message));
    }

    /// Keeps the first pack's hello for the reply of the start.
    fn note_hello(&mut self, number: usize, line: &[u8]) {
        if let Some(creation) = self.creation.as_mut().filter(|_| number == 0) {
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
