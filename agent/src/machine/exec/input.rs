//! `exec.input`: bytes for standard input, in order, the end after the last of them.

use super::{Exec, Feed, Input};
use crate::channel::error::RequestError;
use crate::machine::run::{Answered, Machine, Ticket};
use crate::machine::streams::End;
use serde::Deserialize;
use serde_json::json;
use std::io;

/// What a terminal takes as the end of its input.
const END_OF_TRANSMISSION: u8 = 4;

/// The head of the request.
#[derive(Debug, Deserialize)]
pub struct Feeding {
    id: String,
    s: u64,
}

/// How far feeding came.
enum Progress {
    /// More can come.
    Waiting,
    /// The stream's end was passed on.
    Ended,
    /// The connection went away before the stream's end: standard input stays open for another stream.
    Broken,
    /// The program reads no more.
    Refused,
}

impl Machine {
    /// Feeds a stream to a program; answered when the stream has ended or the program reads no more.
    pub(in crate::machine) fn exec_input(
        &mut self,
        ticket: Ticket,
        request: &Feeding,
    ) -> Result<Answered, RequestError> {
        let slot = self.exec_slot(&request.id)?;
        self.streams.check_all_free(&[request.s])?;
        let exec = self.execs.of_slot(slot).expect("found a moment ago");
        let Some(input) = &mut exec.input else {
            return Err(RequestError::invalid(format!(
                "exec {} has no open standard input; expected one started with stdin true, running, and not ended yet",
                request.id
            )));
        };
        if input.feed.is_some() {
            return Err(RequestError::invalid(format!(
                "another stream feeds exec {}; expected one at a time",
                request.id
            )));
        }
        let queue = self.streams.add_incoming(request.s)?;
        input.feed = Some(Feed { queue, ticket, written_bytes: 0 });
        Ok(Answered::Later)
    }

    /// Passes on what has arrived for a program.
    pub(in crate::machine) fn exec_feed(&mut self, slot: u32) {
        let Some(exec) = self.execs.of_slot(slot) else { return };
        let Some(input) = &mut exec.input else { return };
        let progress = input.pass_on();
        if matches!(progress, Progress::Waiting) {
            return;
        }
        let feed = input.feed.take();
        let stays_open = match progress {
            Progress::Ended => input.tty,
            Progress::Broken => true,
            Progress::Refused | Progress::Waiting => false,
        };
        if !stays_open {
            exec.input = None;
        }
        if let Some(feed) = feed {
            feed.queue.close();
            self.reply(feed.ticket, Ok(json!({"bytes": feed.written_bytes}).into()));
        }
    }

    /// Every program that may have something to be fed.
    pub(in crate::machine) fn exec_feed_all(&mut self) {
        let fed = |exec: &Exec| exec.input.as_ref().is_some_and(|input| input.feed.is_some());
        let slots: Vec<u32> = self.execs.slots.iter().filter(|(_, exec)| fed(exec)).map(|(slot, _)| *slot).collect();
        slots.into_iter().for_each(|slot| self.exec_feed(slot));
    }
}

impl Input {
    fn pass_on(&mut self) -> Progress {
        let Some(feed) = &mut self.feed else { return Progress::Waiting };
        while feed.queue.has_bytes() {
            match feed.queue.take_with(|bytes| crate::system::write(self.sink.raw(), bytes)) {
                Ok(count) => feed.written_bytes += count as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Progress::Waiting,
                Err(_) => return Progress::Refused,
            }
        }
        match feed.queue.ended() {
            None => Progress::Waiting,
            Some(End::Failed(..)) => Progress::Broken,
            Some(End::Whole) if !self.tty => Progress::Ended,
            // A terminal has no end of file of its own; a full one takes the sign later.
            Some(End::Whole) => match crate::system::write(self.sink.raw(), &[END_OF_TRANSMISSION]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Progress::Waiting,
                _ => Progress::Ended,
            },
        }
    }
}

impl Exec {
    /// The program is gone, and its input with it. Returns the request to answer and the bytes it got.
    pub(super) fn end_input(&mut self) -> Option<(Ticket, u64)> {
        let feed = self.input.take()?.feed?;
        feed.queue.close();
        Some((feed.ticket, feed.written_bytes))
    }
}
