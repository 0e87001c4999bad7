//! The loop: frames both ways, children that end, requests.

use super::connection::{Connection, Frame};
use super::start::{self, merge};
use super::state::{Ended, Shim};
use super::{requests, stop};
use crate::channel::frame::Kind;
use crate::system;
use serde_json::json;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// With so much under way to a side, nothing more is read from the other.
const QUEUE_LIMIT_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 256 << 10;
/// Reads of one descriptor in a turn: a flood must not keep the others waiting.
const READS: usize = 8;
/// More than a pipe holds.
const LAST_READS: usize = 64;
/// How long a connection may take to read the last frames.
const FAREWELL: Duration = Duration::from_secs(10);

/// Serves until the sandbox has ended and that was told.
pub fn run(shim: &mut Shim) -> io::Result<()> {
    while shim.ended.is_none() || is_starting(shim) {
        turn(shim, None)?;
    }
    let ended = shim.ended.unwrap_or_default();
    read_agent(shim, usize::MAX, LAST_READS);
    read_errors(shim);
    stop::finish(shim, ended);
    let until = Instant::now() + FAREWELL;
    while shim.connection.as_ref().is_some_and(|connection| !connection.queue.is_empty()) && Instant::now() < until {
        turn(shim, Some(until))?;
    }
    Ok(())
}

/// A short program may have ended before the runtime's `start` says that it began.
fn is_starting(shim: &Shim) -> bool {
    shim.calls.iter().any(|waiting| waiting.asker.is_none())
}

/// Waits once and handles what there is.
fn turn(shim: &mut Shim, until: Option<Instant>) -> io::Result<()> {
    let ready = wait(shim, until)?;
    if ready(shim.children.as_raw_fd()) {
        reap(shim);
    }
    if shim.sandbox.as_ref().is_some_and(|sandbox| ready(sandbox.process.as_raw_fd())) && shim.ended.is_none() {
        reap(shim);
        // Not this process's child: nobody can learn how it ended.
        shim.ended.get_or_insert_default();
    }
    if ready(shim.listener.as_raw_fd()) {
        accept(shim);
    }
    if shim.connection.as_ref().is_some_and(|connection| ready(connection.socket.as_raw_fd())) {
        read_connection(shim);
    }
    if ready(shim.pipes.errors.as_raw_fd()) {
        read_errors(shim);
    }
    if ready(shim.pipes.output.as_raw_fd()) {
        read_agent(shim, QUEUE_LIMIT_BYTES, READS);
    }
    write_all(shim);
    keep_time(shim);
    Ok(())
}

/// Which descriptors are ready.
fn wait(shim: &Shim, until: Option<Instant>) -> io::Result<impl Fn(RawFd) -> bool + use<>> {
    let mut entries = Vec::with_capacity(8);
    let mut add = |descriptor: RawFd, events: i16| entries.push(libc::pollfd { fd: descriptor, events, revents: 0 });
    add(shim.children.as_raw_fd(), libc::POLLIN);
    add(shim.listener.as_raw_fd(), libc::POLLIN);
    add(shim.pipes.errors.as_raw_fd(), libc::POLLIN);
    if let (Some(sandbox), None) = (&shim.sandbox, shim.ended) {
        add(sandbox.process.as_raw_fd(), libc::POLLIN);
    }
    let mut takes_more = true;
    if let Some(connection) = &shim.connection {
        takes_more = connection.queue.len() < QUEUE_LIMIT_BYTES;
        let reading = if shim.to_agent.len() < QUEUE_LIMIT_BYTES { libc::POLLIN } else { 0 };
        let writing = if connection.queue.is_empty() { 0 } else { libc::POLLOUT };
        add(connection.socket.as_raw_fd(), reading | writing);
    }
    if takes_more {
        add(shim.pipes.output.as_raw_fd(), libc::POLLIN);
    }
    if !shim.to_agent.is_empty() {
        add(shim.pipes.input.as_raw_fd(), libc::POLLOUT);
    }
    let timeout = next_deadline(shim, until).map_or(-1, |at| {
        let left = at.saturating_duration_since(Instant::now());
        i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX)
    });
    // SAFETY: the entries live until the call returns.
    let count = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout) };
    if count < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
        entries.clear();
    }
    let ready = libc::POLLIN | libc::POLLHUP | libc::POLLERR;
    Ok(move |descriptor| entries.iter().any(|entry| entry.fd == descriptor && entry.revents & ready != 0))
}

fn next_deadline(shim: &Shim, until: Option<Instant>) -> Option<Instant> {
    shim.calls.iter().map(|waiting| waiting.deadline).chain(shim.stop_by).chain(until).min()
}

fn keep_time(shim: &mut Shim) {
    let now = Instant::now();
    for waiting in shim.calls.iter_mut().filter(|waiting| waiting.deadline <= now) {
        let _ = waiting.call.child.kill();
        // Its end is met like any other; not killed a second time meanwhile.
        waiting.deadline = now + Duration::from_secs(3600);
    }
    if shim.stop_by.is_some_and(|at| at <= now) {
        shim.stop_by = None;
        requests::kill(shim);
    }
}

/// Collects every child that has ended.
fn reap(shim: &mut Shim) {
    let mut drained = [0_u8; 1024];
    while system::read(shim.children.as_raw_fd(), &mut drained).is_ok_and(|count| count > 0) {}
    loop {
        let mut status = 0;
        // SAFETY: status outlives the call.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if pid <= 0 {
            return;
        }
        child_ended(shim, pid, status);
    }
}

fn child_ended(shim: &mut Shim, pid: i32, status: i32) {
    let success = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
    if shim.creating.as_ref().is_some_and(|child| child.id() as i32 == pid) {
        return start::created(shim, success);
    }
    if shim.sandbox.as_ref().is_some_and(|sandbox| sandbox.pid == pid) {
        shim.ended.get_or_insert(how(status));
        return;
    }
    let Some(at) = shim.calls.iter().position(|waiting| waiting.call.child.id() as i32 == pid) else { return };
    let mut waiting = shim.calls.swap_remove(at);
    let (stdout, stderr) = waiting.call.output();
    match waiting.asker {
        None => start::started(shim, success, &stderr),
        Some(asker) => {
            let how = how(status);
            let reply = json!({"ok": true, "code": how.code, "signal": how.signal, "stdout": stdout, "stderr": stderr});
            shim.answer(asker, &reply);
        }
    }
}

/// runsc ends with 128 + n where the container was ended by signal n; that stays a code.
fn how(status: i32) -> Ended {
    if libc::WIFSIGNALED(status) {
        return Ended { code: None, signal: Some(libc::WTERMSIG(status)) };
    }
    Ended { code: Some(libc::WEXITSTATUS(status)), signal: None }
}

/// The newest connection is the one.
fn accept(shim: &mut Shim) {
    let Ok((socket, _)) = shim.listener.accept() else { return };
    if shim.connection.is_some() {
        disconnect(shim);
    }
    shim.connections += 1;
    shim.connection = Connection::new(socket, shim.connections).ok();
    shim.outgoing.connection_changed();
    let mut event = json!({"event": "shim"});
    merge(&mut event, shim.status());
    shim.tell(0, Kind::Event, &event);
}

fn disconnect(shim: &mut Shim) {
    shim.connection = None;
    shim.own_frames.clear();
    shim.outgoing.connection_changed();
    if shim.ended.is_none() {
        start::tell_disconnected(shim);
    }
}

fn read_connection(shim: &mut Shim) {
    let Some(mut connection) = shim.connection.take() else { return };
    let mut own = Vec::new();
    // Still writable after it has shut its own side: one that only half closes is gone too.
    let alive = connection.read();
    let to_agent = &mut shim.to_agent;
    let fits = connection.take_frames(|frame| match frame {
        Frame::Agent(bytes) => to_agent.end().extend_from_slice(bytes),
        Frame::Own { sequence, head } => own.push((sequence, head)),
    });
    let number = connection.number;
    shim.connection = Some(connection);
    for (sequence, head) in own {
        requests::take(shim, (number, sequence), head);
    }
    if !alive || !fits {
        disconnect(shim);
    }
}

/// Takes what the agent has said, as long as the connection's queue is below the limit.
fn read_agent(shim: &mut Shim, limit: usize, reads: usize) {
    let mut bytes = Vec::with_capacity(READ_BYTES);
    for _ in 0..reads {
        if shim.connection.as_ref().is_some_and(|connection| connection.queue.len() >= limit) {
            return;
        }
        bytes.clear();
        if !system::read_into(shim.pipes.output.as_raw_fd(), &mut bytes, READ_BYTES).is_ok_and(|count| count > 0) {
            return;
        }
        let mut nowhere = Vec::new();
        let connected = shim.connection.is_some();
        let to = shim.connection.as_mut().map_or(&mut nowhere, |connection| connection.queue.end());
        shim.outgoing.take(&bytes, connected, to);
        if !shim.own_frames.is_empty() && shim.outgoing.between_frames() {
            to.append(&mut shim.own_frames);
        }
    }
}

/// Into the ring.
pub fn read_errors(shim: &mut Shim) {
    let mut bytes = [0; 16 << 10];
    for _ in 0..READS {
        match system::read(shim.pipes.errors.as_raw_fd(), &mut bytes) {
            Ok(count @ 1..) => shim.ring.write(&bytes[..count]),
            _ => return,
        }
    }
}

fn write_all(shim: &mut Shim) {
    let _ = shim.to_agent.flush(shim.pipes.input.as_raw_fd());
    let Some(connection) = &mut shim.connection else { return };
    if connection.queue.flush(connection.socket.as_raw_fd()).is_err() {
        disconnect(shim);
    }
}
