//! The loop: wait, take what came, move on what can move.

use super::{Shard, Worker};
use crate::channel::error::RequestError;
use crate::channel::request::{Operation, Start};
use crate::event_loop::{Poller, Readiness, Source, Token};
use crate::rows::row::NEVER;
use crate::starts::creation;
use crate::system;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Serves the worker at the other end of `socket` until it closes the shard or goes away.
pub fn serve(socket: RawFd) -> io::Result<()> {
    system::raise_descriptor_limit();
    let children = system::child_signals()?;
    let mut worker = Worker::new(socket);
    let Some((sequence, start)) = await_start(&mut worker)? else {
        return Ok(());
    };
    system::set_nonblocking(socket)?;
    let poller = Poller::new()?;
    poller.add_level(socket, Token::of(Source::Worker))?;
    poller.add_level(children.as_raw_fd(), Token::of(Source::Children))?;
    match creation::prepare(worker, poller, sequence, start) {
        Ok(mut shard) => shard.run(&children),
        Err(refused) => refused.answer(),
    }
}

/// Answers everything before `start` with an error. None at the end of the channel.
fn await_start(worker: &mut Worker) -> io::Result<Option<(u32, Box<Start>)>> {
    loop {
        while let Some(frame) = worker.reader.next_frame() {
            let head = worker.reader.bytes(&frame.head).to_vec();
            let mut body = std::mem::take(&mut worker.body);
            worker.reader.consume(&frame, &mut body);
            worker.body = body;
            let op = serde_json::from_slice::<Operation>(&head).map(|operation| operation.op).unwrap_or_default();
            let error = match op.as_str() {
                "start" => match serde_json::from_slice::<Start>(&head) {
                    Ok(start) => return Ok(Some((frame.sequence, Box::new(start)))),
                    Err(error) => RequestError::invalid(format!("the head of start: {error}")),
                },
                "close" => {
                    worker.reply(frame.sequence, br#"{"ok":true}"#, []);
                    worker.write_all()?;
                    return Ok(None);
                }
                other => RequestError::new("conflict", format!("received '{other}' before start"))
                    .with_hint("send start first"),
            };
            worker.refuse(frame.sequence, &error);
            worker.write_all()?;
        }
        match worker.reader.fill(worker.socket) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => system::wait_readable(worker.socket),
            Err(error) => return Err(error),
        }
    }
}

impl Shard {
    fn run(&mut self, children: &OwnedFd) -> io::Result<()> {
        // What came with the start is there already, and no event will tell of it.
        self.handle_requests();
        self.advance(false);
        self.worker.flush(&self.poller)?;
        loop {
            let count = self.poller.wait(self.timeout_ms())?;
            for position in 0..count {
                let (token, readiness) = self.poller.event(position);
                self.handle(token, readiness, children)?;
            }
            self.read_undrained();
            self.advance(count == 0);
            self.worker.flush(&self.poller)?;
            if self.worker.gone || self.closed() {
                self.end_everything();
                return self.worker.write_all();
            }
        }
    }

    fn timeout_ms(&self) -> i32 {
        if !self.undrained.is_empty() || self.has_cleaning() {
            return 0;
        }
        if self.earliest_us == NEVER {
            return -1;
        }
        // Rounded up: waking before the deadline would only mean another turn.
        let left_us = self.earliest_us.saturating_sub(system::now_us());
        i32::try_from(left_us.div_ceil(1000)).unwrap_or(i32::MAX)
    }

    #[inline]
    fn handle(&mut self, token: Token, readiness: Readiness, children: &OwnedFd) -> io::Result<()> {
        match token.source {
            Source::Pack | Source::PackPipes => self.pack_event(token, readiness),
            Source::Worker => {
                if readiness.readable {
                    self.read_requests()?;
                }
            }
            Source::PackLog => self.read_log(token),
            Source::Copy => self.copy_event(token.pack as u32, readiness),
            Source::CopyLog => self.read_copy_log(token.pack as u32),
            Source::Children => self.children_ended(children.as_raw_fd()),
            Source::Template | Source::TemplatePipes => self.template_event(token, readiness),
            Source::TemplateLog => self.read_template_log(),
            Source::Sampler => self.read_sample(),
        }
        Ok(())
    }

    /// Everything that follows from what came in this turn.
    fn advance(&mut self, idle: bool) {
        if self.earliest_us != NEVER {
            let now_us = system::now_us();
            if now_us >= self.earliest_us {
                self.expire(now_us);
            }
        }
        self.advance_branch();
        self.dispatch();
        let answered = self.answer_batch();
        if answered {
            // The reply goes out before anything else is done.
            let _ = self.worker.flush(&self.poller);
            self.handle_requests();
        }
        let told = self.tell_results();
        if told {
            let _ = self.worker.flush(&self.poller);
        }
        self.pump_starts(idle || answered || told);
        self.clean_remains(idle || answered || told);
        self.advance_creation();
    }
}

impl Worker {
    /// Writes everything, waiting for room.
    pub(crate) fn write_all(&mut self) -> io::Result<()> {
        while !self.gone && !self.is_flushed() {
            if !self.try_flush() {
                system::wait_writable(self.socket);
            }
        }
        Ok(())
    }
}
