//! The few system calls of the step path, and descriptors made non-blocking.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Reads once into a buffer.
#[inline]
pub fn read(descriptor: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let count = unsafe { libc::read(descriptor, buffer.as_mut_ptr().cast(), buffer.len()) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(count as usize)
}

/// Reads once, at most `limit` bytes, behind what a vector holds.
pub fn read_into(descriptor: RawFd, buffer: &mut Vec<u8>, limit: usize) -> io::Result<usize> {
    let before = buffer.len();
    buffer.reserve(limit);
    // SAFETY: `limit` bytes behind the length were reserved, and only those that were read become part of it.
    let count = unsafe { libc::read(descriptor, buffer.as_mut_ptr().add(before).cast(), limit) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel filled that many bytes.
    unsafe { buffer.set_len(before + count as usize) };
    Ok(count as usize)
}

/// Writes once.
#[inline]
pub fn write(descriptor: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are valid for their length.
    let count = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(count as usize)
}

/// Writes several slices once.
pub fn write_vectored(descriptor: RawFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: IoSlice has the layout of iovec.
    let count = unsafe { libc::writev(descriptor, slices.as_ptr().cast(), slices.len() as i32) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(count as usize)
}

/// Microseconds of the monotonic clock.
#[inline]
pub fn now_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel, or its shared page, fills the struct.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// Both ends of a stream socket: ours non-blocking, the child's not.
pub fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel fills two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let (ours, theirs) = own(ends);
    set_nonblocking(ours.as_raw_fd())?;
    Ok((ours, theirs))
}

/// A pipe, reading end first; neither end is non-blocking.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the kernel fills two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(own(ends))
}

fn own(ends: [i32; 2]) -> (OwnedFd, OwnedFd) {
    // SAFETY: both were just made and belong to nobody else.
    unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) }
}

/// Makes a descriptor non-blocking.
pub fn set_nonblocking(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: fcntl on a descriptor this process owns.
    let done = unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        flags >= 0 && libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) >= 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives a pipe to a user, so that its program can open `/dev/stderr` by path.
pub fn give(descriptor: RawFd, uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: fchown on a descriptor this process owns.
    if unsafe { libc::fchown(descriptor, uid, gid) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Kills one process that was not reaped yet.
pub fn kill(pid: i32) {
    // SAFETY: a positive pid of a child that still has its entry in the process table.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Where a byte stands first.
#[inline]
pub fn find_byte(byte: u8, bytes: &[u8]) -> Option<usize> {
    // SAFETY: the bytes are valid for their length.
    let found = unsafe { libc::memchr(bytes.as_ptr().cast(), i32::from(byte), bytes.len()) };
    // An address inside the slice, so the difference is an offset into it.
    (!found.is_null()).then(|| found as usize - bytes.as_ptr() as usize)
}

/// A descriptor that becomes readable when a child ends. Broken pipes are errors, not signals.
pub fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: plain calls on a set that lives here; the descriptor belongs to nobody else.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) < 0 {
            return Err(io::Error::last_os_error());
        }
        let descriptor = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// Raises the limit of open descriptors to what is allowed: each row takes two, each start some more.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the struct, then reads it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Waits until a descriptor can be read.
pub fn wait_readable(descriptor: RawFd) {
    wait(descriptor, libc::POLLIN);
}

/// Waits until a descriptor can be written.
pub fn wait_writable(descriptor: RawFd) {
    wait(descriptor, libc::POLLOUT);
}

fn wait(descriptor: RawFd, events: i16) {
    let mut entry = libc::pollfd { fd: descriptor, events, revents: 0 };
    // SAFETY: one entry that lives until the call returns.
    unsafe { libc::poll(&mut entry, 1, -1) };
}
