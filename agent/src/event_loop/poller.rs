//! epoll.

use super::token::Token;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What an event says about its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readiness {
    /// Something can be read, the end included.
    pub readable: bool,
    /// Something can be written.
    pub writable: bool,
    /// The other side is gone; what it wrote is still to be read.
    pub hangup: bool,
}

/// A set of descriptors, each with a token.
pub struct Poller {
    descriptor: OwnedFd,
    events: Vec<libc::epoll_event>,
}

const EVENTS_AT_ONCE: usize = 512;

impl Poller {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the new descriptor belongs to nobody else.
        let descriptor = unsafe {
            let descriptor = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(descriptor)
        };
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Ok(Self { descriptor, events: vec![empty; EVENTS_AT_ONCE] })
    }

    /// Adds a descriptor that is read until it is empty: one event for each arrival.
    pub fn add_edge(&self, descriptor: RawFd, token: Token) -> io::Result<()> {
        let flags = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
        self.control(libc::EPOLL_CTL_ADD, descriptor, flags, token)
    }

    /// Adds a descriptor that is told about as long as something is there.
    pub fn add_level(&self, descriptor: RawFd, token: Token) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, descriptor, libc::EPOLLIN, token)
    }

    /// Adds the writing end of a pipe that is full.
    pub fn add_writable(&self, descriptor: RawFd, token: Token) -> io::Result<()> {
        let flags = libc::EPOLLOUT | libc::EPOLLET;
        self.control(libc::EPOLL_CTL_ADD, descriptor, flags, token)
    }

    /// Changes an edge descriptor: its token, and whether room for writing is told too.
    pub fn change_edge(&self, descriptor: RawFd, token: Token, writable: bool) -> io::Result<()> {
        let flags = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
        let more = if writable { libc::EPOLLOUT } else { 0 };
        self.control(libc::EPOLL_CTL_MOD, descriptor, flags | more, token)
    }

    /// Changes a level descriptor likewise.
    pub fn change_level(&self, descriptor: RawFd, token: Token, writable: bool) -> io::Result<()> {
        let more = if writable { libc::EPOLLOUT } else { 0 };
        self.control(libc::EPOLL_CTL_MOD, descriptor, libc::EPOLLIN | more, token)
    }

    /// Takes a descriptor out. Closing it is not enough while a forked helper has a copy.
    pub fn remove(&self, descriptor: RawFd) {
        let _ = self.control(libc::EPOLL_CTL_DEL, descriptor, 0, Token::of(super::Source::Worker));
    }

    /// Waits; -1 for ever. Returns how many events there are.
    pub fn wait(&mut self, timeout_ms: i32) -> io::Result<usize> {
        // SAFETY: the buffer is valid for its length.
        let count = unsafe {
            libc::epoll_wait(
                self.descriptor.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as i32,
                timeout_ms,
            )
        };
        if count >= 0 {
            return Ok(count as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted { Ok(0) } else { Err(error) }
    }

    /// One of the events that `wait` counted.
    pub fn event(&self, position: usize) -> (Token, Readiness) {
        let event = self.events[position];
        let flags = event.events as i32;
        let hangup = flags & (libc::EPOLLHUP | libc::EPOLLRDHUP | libc::EPOLLERR) != 0;
        let readiness =
            Readiness { readable: hangup || flags & libc::EPOLLIN != 0, writable: flags & libc::EPOLLOUT != 0, hangup };
        (Token::unpack(event.u64), readiness)
    }

    fn control(&self, what: i32, descriptor: RawFd, flags: i32, token: Token) -> io::Result<()> {
        let mut event = libc::epoll_event { events: flags as u32, u64: token.pack() };
        // SAFETY: the event lives until the call returns.
        if unsafe { libc::epoll_ctl(self.descriptor.as_raw_fd(), what, descriptor, &mut event) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
