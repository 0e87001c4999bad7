//! Threads for work that may block: each request its own, so that one can become another user for good.

use super::keeper::{Credentials, become_thread};
use super::mailbox::Post;
use super::run::{Answered, Machine, Ticket};
use super::users;
use crate::channel::error::RequestError;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;

/// Threads at once; what comes above waits for its turn.
const THREADS: usize = 128;
const STACK_BYTES: usize = 512 << 10;

type Job = Box<dyn FnOnce() + Send>;

/// Work in progress and work that waits.
#[derive(Default)]
pub struct Workers {
    active: usize,
    /// Watches among them, which stay.
    pub watches: Arc<AtomicUsize>,
    waiting: VecDeque<(Ticket, Order, Job)>,
}

/// Where the answer of some work stands among the frames of its stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Order {
    /// The stream's data comes after the answer.
    pub opens: Option<u64>,
    /// The answer comes after the stream's end.
    pub after: Option<u64>,
}

impl Machine {
    /// Does some work as a user in a thread and answers with what it comes to.
    pub(super) fn work(
        &mut self,
        ticket: Ticket,
        user: Option<&str>,
        order: Order,
        job: impl FnOnce() -> Result<Value, RequestError> + Send + 'static,
    ) -> Result<Answered, RequestError> {
        let credentials = self.credentials(user)?;
        let mailbox = self.mailbox.clone();
        let job: Job = Box::new(move || {
            let taken = credentials.as_ref().map_or(Ok(()), become_thread);
            let result = match taken {
                Ok(()) => job(),
                Err(error) => Err(RequestError::new("permission_denied", format!("the user cannot be taken: {error}"))),
            };
            mailbox.post(Post { ticket, result, opens: order.opens, after: order.after, worked: true });
        });
        self.workers.waiting.push_back((ticket, order, job));
        self.start_workers();
        Ok(Answered::Later)
    }

    /// Like `work` for a job that posts its answer itself where it works out.
    pub(super) fn work_quietly(
        &mut self,
        ticket: Ticket,
        user: Option<&str>,
        order: Order,
        job: impl FnOnce() -> Result<(), RequestError> + Send + 'static,
    ) -> Result<Answered, RequestError> {
        self.work(ticket, user, order, move || job().map(|()| Value::Null))
    }

    /// Who a thread becomes for a user; `None` stays what the agent is.
    pub(super) fn credentials(&self, user: Option<&str>) -> Result<Option<Credentials>, RequestError> {
        let Some(text) = user else { return Ok(None) };
        let user = users::resolve(Some(text)).map_err(RequestError::invalid)?;
        if user.uid == users::own_id() {
            return Ok(None);
        }
        Ok(Some(Credentials { uid: user.uid, gid: user.gid, groups: user.groups, unprivileged: false }))
    }

    /// One piece of work is done.
    pub(super) fn worked(&mut self) {
        self.workers.active -= 1;
        self.start_workers();
    }

    fn start_workers(&mut self) {
        while self.workers.active < THREADS
            && let Some((ticket, order, job)) = self.workers.waiting.pop_front()
        {
            match thread::Builder::new().stack_size(STACK_BYTES).spawn(job) {
                Ok(_) => self.workers.active += 1,
                Err(error) => {
                    let error = RequestError::new("file_invalid", format!("no thread for the work: {error}"))
                        .with_hint("the machine has too many processes; end some");
                    let Order { opens, after } = order;
                    self.deliver(Post { ticket, result: Err(error), opens, after, worked: false });
                }
            }
        }
    }
}
