//! Thin safe wrappers of the system calls that every unix has. None of them allocates: they run
//! between fork and exec too.

use std::fmt::Display;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Puts what was tried in front of the operating system's error.
pub(super) fn explain(error: io::Error, what: impl Display) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

pub(super) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Forks; `None` in the child.
///
/// # Safety
/// With other threads alive the child may only use what is async-signal-safe, and it must end by
/// exec or `exit_now`.
pub(super) unsafe fn fork() -> io::Result<Option<i32>> {
    // SAFETY: the caller keeps the child to what a forked child may do.
    let pid = check(unsafe { libc::fork() })?;
    Ok((pid != 0).then_some(pid))
}

/// Ends the process without destructors or exit handlers, which belong to the parent.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: takes no pointer and does not return.
    unsafe { libc::_exit(code) }
}

pub(super) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes no pointer.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// `waitpid`, repeated when interrupted; `None` when nothing has ended (`WNOHANG`).
pub(super) fn wait(pid: i32, options: i32) -> io::Result<Option<(i32, i32)>> {
    loop {
        let mut status = 0;
        // SAFETY: status outlives the call.
        match check(unsafe { libc::waitpid(pid, &raw mut status, options) }) {
            Ok(0) => return Ok(None),
            Ok(ended) => return Ok(Some((ended, status))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A pipe, read end first, both closed on exec.
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: pipe fills the two elements, and what it returns is open and ours.
    let (read, write) = unsafe {
        check(libc::pipe(ends.as_mut_ptr()))?;
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    close_on_exec(ends[0])?;
    close_on_exec(ends[1])?;
    Ok((read, write))
}

pub(super) fn close_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: takes no pointer.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}

pub(super) fn non_blocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: takes no pointer.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) }).map(drop)
}

/// A copy of `fd` numbered `lowest` or more.
pub(super) fn duplicate_above(fd: RawFd, lowest: RawFd) -> io::Result<RawFd> {
    // SAFETY: takes no pointer.
    check(unsafe { libc::fcntl(fd, libc::F_DUPFD, lowest) })
}

pub(super) fn duplicate_onto(fd: RawFd, target: RawFd) -> io::Result<()> {
    // SAFETY: takes no pointer.
    check(unsafe { libc::dup2(fd, target) }).map(drop)
}

pub(super) fn new_session() -> io::Result<()> {
    // SAFETY: takes no argument.
    check(unsafe { libc::setsid() }).map(drop)
}

/// Closes every descriptor from `first` on.
pub(super) fn close_from(first: RawFd) {
    #[cfg(target_os = "linux")]
    // SAFETY: takes no pointer; the caller owns the process's descriptors, as it is about to exec.
    if unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) } == 0 {
        return;
    }
    // SAFETY: getdtablesize and close take no pointer.
    unsafe {
        for fd in first..libc::getdtablesize() {
            libc::close(fd);
        }
    }
}

/// Default handlers and an empty mask: what a program expects, whatever the agent ignores or blocks.
pub(super) fn reset_signals() {
    // SAFETY: the set is initialised by sigemptyset before use; SIG_DFL is a valid handler.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}
