//! What threads of file work hand to the event loop.

use super::run::Ticket;
use crate::channel::error::RequestError;
use crate::channel::writer::Part;
use serde_json::Value;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// The answer to a request.
pub struct Reply {
    /// Members of the head beside `ok`.
    pub head: Value,
    /// The body.
    pub body: Vec<Part>,
}

/// An answer without a body.
impl From<Value> for Reply {
    fn from(head: Value) -> Self {
        Self { head, body: Vec::new() }
    }
}

/// What a request comes to.
pub type Answer = Result<Reply, RequestError>;

/// An answer on its way: threads post it, the loop sends it if the connection is still the same.
pub struct Post {
    /// Whose request it was.
    pub ticket: Ticket,
    /// The head of an answer that worked out.
    pub result: Result<Value, RequestError>,
    /// A stream whose data may go once this answer is sent.
    pub opens: Option<u64>,
    /// A stream whose end comes before this answer.
    pub after: Option<u64>,
    /// A thread has ended with it.
    pub worked: bool,
}

/// Wakes the loop from any thread.
pub struct Waker(OwnedFd);

impl Waker {
    /// Wakes it.
    pub fn wake(&self) {
        // A counter that is full has woken the loop already.
        let _ = crate::system::write(self.0.as_raw_fd(), &1u64.to_ne_bytes());
    }

    /// A descriptor of its own for the loop.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Takes the wakes so far.
    pub fn clear(&self) {
        let _ = crate::system::read(self.0.as_raw_fd(), &mut [0; 8]);
    }
}

/// The posts that the loop has not taken yet.
pub struct Mailbox {
    posts: Mutex<Vec<Post>>,
    /// Told to the loop.
    pub waker: std::sync::Arc<Waker>,
}

impl Mailbox {
    /// An empty one.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the new descriptor belongs to nobody else.
        let descriptor = unsafe {
            let descriptor = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(descriptor)
        };
        Ok(Self { posts: Mutex::default(), waker: std::sync::Arc::new(Waker(descriptor)) })
    }

    /// Adds a post.
    pub fn post(&self, post: Post) {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner).push(post);
        self.waker.wake();
    }

    /// Takes all posts.
    pub fn take(&self) -> Vec<Post> {
        std::mem::take(&mut *self.posts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
