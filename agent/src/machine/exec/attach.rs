//! `exec.attach`

use super::Output;
use crate::channel::error::RequestError;
use crate::machine::run::{Answered, Machine};
use crate::machine::streams::{End, Streams};
use serde::Deserialize;
use serde_json::{Value, json};

/// The head of the request.
#[derive(Debug, Deserialize)]
pub struct Attaching {
    id: String,
    #[serde(default)]
    stdout: Option<u64>,
    #[serde(default)]
    stderr: Option<u64>,
    #[serde(default)]
    from: From,
}

#[derive(Debug, Default, Deserialize, PartialEq, Eq, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum From {
    #[default]
    Start,
    Now,
}

impl Machine {
    /// Adds streams to a program's outputs. What was kept comes first; the reply says how large a hole it has.
    pub(in crate::machine) fn exec_attach(&mut self, request: &Attaching) -> Result<Answered, RequestError> {
        let slot = self.exec_slot(&request.id)?;
        let streams: Vec<u64> = request.stdout.into_iter().chain(request.stderr).collect();
        self.streams.check_all_free(&streams)?;
        let exec = self.execs.of_slot(slot).expect("found a moment ago");
        if request.stderr.is_some() && exec.stderr.is_none() {
            return Err(RequestError::invalid(format!(
                "exec {} has a terminal, whose only output is stdout; expected stderr null",
                request.id
            )));
        }
        let state = exec.state();
        let mut kept = json!({"stdout": exec.stdout.describe()});
        if let Some(errors) = &exec.stderr {
            kept["stderr"] = errors.describe();
        }
        for (stream, output) in [(request.stdout, Some(&mut exec.stdout)), (request.stderr, exec.stderr.as_mut())] {
            if let (Some(stream), Some(output)) = (stream, output) {
                output.attach(stream, request.from, &mut self.streams)?;
            }
        }
        self.exec_settle(slot);
        Ok(Answered::now(json!({"state": state, "kept": kept})))
    }

    /// Where an exec stands; an error for one that is not known (any more).
    pub(super) fn exec_slot(&self, id: &str) -> Result<u32, RequestError> {
        self.execs.slot_of(id).ok_or_else(|| {
            RequestError::new("exec_not_found", format!("no exec {id:?}; expected one that exec.list names"))
                .with_hint("finished execs are known for 10 minutes, at most 256 of them")
        })
    }
}

impl Output {
    fn attach(&mut self, stream: u64, from: From, streams: &mut Streams) -> Result<(), RequestError> {
        let queue = streams.add_outgoing(stream, true)?;
        if from == From::Start {
            self.kept.parts().iter().for_each(|part| queue.push(part));
        }
        if self.source.is_some() {
            self.readers.push(stream);
        } else {
            queue.finish(End::Whole);
        }
        Ok(())
    }

    fn describe(&self) -> Value {
        json!({
            "head": self.kept.head_bytes(), "tail": self.kept.tail_bytes(), "dropped": self.kept.dropped_bytes()
        })
    }
}
