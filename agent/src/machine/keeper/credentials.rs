//! Taking an identity.

use serde::{Deserialize, Serialize};
use std::io;

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Who a program runs as.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Credentials {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// No new privileges and no capability, also for root.
    pub unprivileged: bool,
}

impl Credentials {
    /// Changes the calling process for good, between fork and exec. Without root it can only stay who it is.
    pub fn take(&self) -> io::Result<()> {
        self.change()?;
        clear_inheritable(self.unprivileged)?;
        if self.unprivileged {
            // SAFETY: takes numbers only.
            check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
        }
        Ok(())
    }

    fn change(&self) -> io::Result<()> {
        // SAFETY: takes no argument.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        if uid != 0 {
            let same = self.uid == uid && self.gid == gid;
            return if same { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) };
        }
        self.set_groups()?;
        // The bare system calls: they change the calling thread only, which a thread of file work needs.
        // SAFETY: they take numbers only.
        unsafe {
            check_long(libc::syscall(libc::SYS_setresgid, self.gid, self.gid, self.gid))?;
            check_long(libc::syscall(libc::SYS_setresuid, self.uid, self.uid, self.uid))
        }
    }

    fn set_groups(&self) -> io::Result<()> {
        // SAFETY: the list is valid for its length.
        let set = unsafe { libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) };
        match check_long(set) {
            // A user namespace made without root has no groups to give.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && groups_denied() => Ok(()),
            other => other,
        }
    }
}

/// Makes the calling thread, and no other, that user for the rest of its life.
pub fn become_thread(credentials: &Credentials) -> io::Result<()> {
    credentials.change()
}

fn groups_denied() -> bool {
    std::fs::read_to_string("/proc/self/setgroups").is_ok_and(|text| text.trim() == "deny")
}

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Word {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Nothing is handed on by inheritance; with `all` the process keeps no capability either. With no new privileges an
/// exec as uid 0 brings none back.
fn clear_inheritable(all: bool) -> io::Result<()> {
    let mut words = [Word::default(); 2];
    let mut header = Header { version: CAPABILITY_VERSION_3, pid: 0 };
    // SAFETY: version 3 has two words; header and words outlive the calls.
    unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        check_long(libc::syscall(libc::SYS_capget, &raw mut header, words.as_mut_ptr()))?;
        for word in &mut words {
            word.inheritable = 0;
            if all {
                *word = Word::default();
            }
        }
        check_long(libc::syscall(libc::SYS_capset, &raw mut header, words.as_ptr()))
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn check_long(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
