//! `file.watch`: what changes below a path, as lines of JSON.

mod changes;
mod notify;

use super::files::check_path;
use super::run::{Answered, Machine, Ticket};
use super::streams::{End, Outbound};
use super::work::Order;
use crate::channel::error::RequestError;
use crate::machine::files::errors::{failed, invalid};
use crate::machine::mailbox::Post;
use changes::Changes;
use notify::Notify;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Changes that come within this time are told together.
const GATHER: Duration = Duration::from_millis(20);
/// How soon an end by the worker is seen.
const PATIENCE: Duration = Duration::from_millis(250);

/// Watches of a machine: each takes a thread as long as it lasts.
const WATCHES: usize = 64;

/// The head of the request.
#[derive(Debug, Deserialize)]
pub struct WatchRequest {
    path: String,
    s: u64,
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    user: Option<String>,
}

impl Machine {
    /// `{}` once changes are seen, then lines; ends when the worker cancels or the path is gone.
    pub(super) fn file_watch(&mut self, ticket: Ticket, request: WatchRequest) -> Result<Answered, RequestError> {
        check_path(&request.path)?;
        self.credentials(request.user.as_deref())?;
        let counted = Counted::new(&self.workers.watches).ok_or_else(|| {
            invalid(&request.path, format!("cannot be watched: there are {WATCHES} watches; cancel one"))
        })?;
        let queue = self.streams.add_outgoing(request.s, false)?;
        let mailbox = self.mailbox.clone();
        let user = request.user.clone();
        let order = Order { opens: Some(request.s), after: None };
        self.work_quietly(ticket, user.as_deref(), order, move || {
            let _counted = counted;
            let mut notify = Notify::new(Path::new(&request.path), request.recursive)
                .map_err(|error| failed("watch", &request.path, &error))?;
            let opens = Some(request.s);
            mailbox.post(Post { ticket, result: Ok(json!({})), opens, after: None, worked: false });
            follow(&mut notify, &queue);
            Ok(())
        })
    }
}

/// One of the watches, until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Option<Self> {
        let counted = Self(count.clone());
        // One too many takes itself back as it is dropped.
        (counted.0.fetch_add(1, Ordering::Relaxed) < WATCHES).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn follow(notify: &mut Notify, queue: &Outbound) {
    let mut changes = Changes::default();
    let mut since: Option<Instant> = None;
    while !queue.is_cancelled() {
        let waited = notify.read(if since.is_some() { GATHER } else { PATIENCE }, &mut changes);
        if waited.is_err() || notify.is_over() {
            changes.tell(queue);
            queue.finish(End::Whole);
            return;
        }
        since = since.or_else(|| (!changes.is_empty()).then(Instant::now));
        if since.is_some_and(|since| since.elapsed() >= GATHER) && queue.has_room() {
            changes.tell(queue);
            since = None;
        }
    }
}
