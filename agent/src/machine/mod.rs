//! The agent of a machine: programs, files and ports of one long-lived sandbox, asked for over standard input and
//! answered on standard output.
//!
//! `docs/internals/machines.md` is the contract with the worker.

mod clock;
mod connection;
mod exec;
mod files;
pub mod keeper;
mod mailbox;
mod memory;
mod poller;
mod ports;
mod processes;
mod pty;
mod requests;
mod run;
mod signals;
mod start;
mod states;
mod stop;
mod streams;
mod trees;
mod users;
mod watch;
mod work;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Serves the worker on standard input and output until it says `stop`. Returns the exit code.
pub fn serve() -> io::Result<i32> {
    let [input, output] = [0, 1].map(|number| {
        // Away from 0 and 1, which what is printed by mistake must not reach.
        // SAFETY: takes numbers only; the copy belongs to nobody else.
        unsafe {
            let copy = libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 10);
            if copy < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(copy)) }
        }
    });
    let (input, output) = (input?, output?);
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    // SAFETY: takes numbers only.
    unsafe {
        libc::dup2(null.as_raw_fd(), 0);
        libc::dup2(2, 1);
    }
    run::serve(input, output)
}
