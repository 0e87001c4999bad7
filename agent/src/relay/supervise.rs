//! Runs the program beside the relay: passes signals on, reaps orphans (the relay may be process 1),
//! and tells the program's exit code.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

const FORWARDED: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Keeps the forwarded signals and SIGCHLD for `run` to wait for.
pub(super) fn block_signals() {
    change_mask(libc::SIG_BLOCK);
}

pub(super) fn unblock_signals() {
    change_mask(libc::SIG_UNBLOCK);
}

/// Returns the program's exit code, or 128 + n after signal n.
pub(super) fn run(program: &[String]) -> io::Result<i32> {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]);
    // SAFETY: the closure only changes the signal mask, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            unblock_signals();
            Ok(())
        });
    }
    let child = command.spawn()?.id().cast_signed();
    loop {
        let signal = wait_for_signal();
        if signal == libc::SIGCHLD {
            if let Some(code) = reap_until(child) {
                return Ok(code);
            }
        } else {
            // SAFETY: takes numbers only; the child is not reaped yet, so the number is its own.
            unsafe { libc::kill(child, signal) };
        }
    }
}

/// Several children may stand behind one SIGCHLD.
fn reap_until(child: i32) -> Option<i32> {
    loop {
        let mut status = 0;
        // SAFETY: status outlives the call.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if ended <= 0 {
            return None;
        }
        if ended == child {
            return Some(if libc::WIFSIGNALED(status) {
                128 + libc::WTERMSIG(status)
            } else {
                libc::WEXITSTATUS(status)
            });
        }
    }
}

fn wait_for_signal() -> libc::c_int {
    let set = signals();
    let mut signal = 0;
    // SAFETY: set and signal outlive the call.
    unsafe { libc::sigwait(&raw const set, &raw mut signal) };
    signal
}

fn change_mask(how: libc::c_int) {
    let set = signals();
    // SAFETY: the set is initialised; no old mask is asked for.
    unsafe { libc::pthread_sigmask(how, &raw const set, ptr::null_mut()) };
}

fn signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set before anything is added or read.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in FORWARDED.iter().chain(&[libc::SIGCHLD]) {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}
