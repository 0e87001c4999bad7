//! Processes told from every later one with the same pid.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

/// Pid, start and boot of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its number.
    pub pid: i32,
    /// Field 22 of `/proc/<pid>/stat`.
    pub start_time: String,
    /// The kernel's boot id.
    pub boot: String,
}

impl Identity {
    /// Of a process that runs; `None` when it does not (a zombie does not).
    pub fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, start_time: start_time(pid)?, boot: boot_id() })
    }

    /// A descriptor of exactly this process, `None` when it is gone.
    pub fn open(&self) -> Option<OwnedFd> {
        let descriptor = open_process(self.pid).ok()?;
        // Looked at after the descriptor was made: it can be no other process from here on.
        (Self::of(self.pid).as_ref() == Some(self)).then_some(descriptor)
    }

    /// Written beside `file` and renamed onto it.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        write_whole(file, &serde_json::to_vec(self)?)
    }

    /// Null when there is no such file.
    pub fn read(file: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }
}

/// Writes a file whole or not at all.
pub fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = file.with_extension("draft");
    fs::write(&draft, bytes)?;
    fs::rename(&draft, file)
}

/// A pidfd.
pub fn open_process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only; the new descriptor belongs to nobody else.
    unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(descriptor as i32))
    }
}

/// SIGKILL through a pidfd.
pub fn kill(process: &OwnedFd) {
    use std::os::fd::AsRawFd;
    // SAFETY: a descriptor this process owns, no further pointer.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), libc::SIGKILL, 0, 0) };
}

fn start_time(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces and parentheses itself.
    let mut fields = stat[stat.rfind(')')? + 2..].split(' ');
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18).map(str::to_owned)
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
