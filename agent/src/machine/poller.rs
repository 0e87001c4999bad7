//! epoll with interests that change: what may not be read now is taken out, or a hangup would wake the loop for ever.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::time::Duration;

/// Where an event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Frames of the worker.
    Requests,
    /// Room for frames to the worker.
    Replies,
    /// A child has ended, or this process was asked to end.
    Signals,
    /// A thread has posted something.
    Mailbox,
    /// Standard output (or the terminal) of an exec.
    Stdout(u32),
    /// Standard error of an exec.
    Stderr(u32),
    /// Standard input of an exec.
    Stdin(u32),
    /// The keeper of an exec.
    Keeper(u32),
    /// A dialled connection.
    Port(u32),
}

impl Source {
    fn pack(self) -> u64 {
        let (kind, slot) = match self {
            Self::Requests => (0, 0),
            Self::Replies => (1, 0),
            Self::Signals => (2, 0),
            Self::Mailbox => (3, 0),
            Self::Stdout(slot) => (4, slot),
            Self::Stderr(slot) => (5, slot),
            Self::Stdin(slot) => (6, slot),
            Self::Keeper(slot) => (7, slot),
            Self::Port(slot) => (8, slot),
        };
        kind << 32 | u64::from(slot)
    }

    fn unpack(bits: u64) -> Self {
        let slot = bits as u32;
        match bits >> 32 {
            0 => Self::Requests,
            1 => Self::Replies,
            2 => Self::Signals,
            3 => Self::Mailbox,
            4 => Self::Stdout(slot),
            5 => Self::Stderr(slot),
            6 => Self::Stdin(slot),
            7 => Self::Keeper(slot),
            _ => Self::Port(slot),
        }
    }
}

/// The set of descriptors.
#[derive(Clone)]
pub struct Poller(Rc<OwnedFd>);

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
        Ok(Self(Rc::new(descriptor)))
    }

    /// Waits, `None` for ever, and returns who is ready.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<Vec<Source>> {
        // Rounded up: a deadline of half a millisecond is not waited for by turning.
        let timeout_ms = limit.map_or(-1, |limit| limit.as_micros().div_ceil(1000).min(60_000) as i32);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 128];
        // SAFETY: the buffer is valid for its length.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 128, timeout_ms) };
        if count >= 0 {
            return Ok(events[..count as usize].iter().map(|event| Source::unpack(event.u64)).collect());
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted { Ok(Vec::new()) } else { Err(error) }
    }

    fn control(&self, what: i32, descriptor: RawFd, events: i32, source: Source) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: source.pack() };
        // SAFETY: the event lives until the call returns.
        if unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, descriptor, &raw mut event) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// A descriptor of the set. It leaves the set when it is dropped, before it is closed: a child that was just forked
/// may still have a copy of it.
pub struct Watched {
    descriptor: OwnedFd,
    poller: Poller,
    source: Source,
    interest: i32,
}

impl Watched {
    /// A non-blocking descriptor, of no interest at first.
    pub fn new(descriptor: OwnedFd, poller: &Poller, source: Source) -> io::Result<Self> {
        crate::system::set_nonblocking(descriptor.as_raw_fd())?;
        Ok(Self { descriptor, poller: poller.clone(), source, interest: 0 })
    }

    /// Its number.
    pub fn raw(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// What is waited for from now on.
    pub fn want(&mut self, readable: bool, writable: bool) {
        let interest = if readable { libc::EPOLLIN } else { 0 } | if writable { libc::EPOLLOUT } else { 0 };
        if interest == self.interest {
            return;
        }
        let what = match (self.interest, interest) {
            (0, _) => libc::EPOLL_CTL_ADD,
            (_, 0) => libc::EPOLL_CTL_DEL,
            _ => libc::EPOLL_CTL_MOD,
        };
        // It fails only where memory or watches have run out; the next turn tries again.
        if self.poller.control(what, self.raw(), interest, self.source).is_ok() {
            self.interest = interest;
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.want(false, false);
    }
}
