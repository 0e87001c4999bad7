//! Collects the processes that have ended. The agent is the parent of every orphan.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::sys;

/// How a process ended; one of the two is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Exit code.
    pub code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
}

/// Collected while something else waited, told by the next `reap`.
static PENDING: Mutex<Vec<(i32, Exit)>> = Mutex::new(Vec::new());

/// Processes of our own that nobody else wants to hear of.
static HELPERS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Every process that ended since the last call, without waiting. Call it on SIGCHLD and after
/// `kill_everything`, which collects too while it waits.
pub fn reap() -> Vec<(i32, Exit)> {
    collect();
    std::mem::take(&mut *lock(&PENDING))
}

pub(super) fn collect() {
    while let Ok(Some((pid, status))) = sys::wait(-1, libc::WNOHANG) {
        if !forget_helper(pid) {
            lock(&PENDING).push((pid, exit(status)));
        }
    }
}

pub(super) fn remember_helper(pid: i32) {
    lock(&HELPERS).push(pid);
}

/// True if the helper was known and had not been collected yet.
pub(super) fn forget_helper(pid: i32) -> bool {
    let mut helpers = lock(&HELPERS);
    let before = helpers.len();
    helpers.retain(|&helper| helper != pid);
    helpers.len() < before
}

fn exit(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) {
        return Exit { code: None, signal: Some(libc::WTERMSIG(status)) };
    }
    Exit { code: Some(libc::WEXITSTATUS(status)), signal: None }
}

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
