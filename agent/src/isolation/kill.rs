//! Ends every process of a row, and makes sure of it.

use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::processes::Leader;
use super::{Identity, Isolation, processes, reap, sys};

/// How long `kill_everything` waits at most.
const LIMIT: Duration = Duration::from_millis(500);

/// Kills again at this interval: a process may just have been born outside the first kill's sight.
const ROUND: Duration = Duration::from_millis(50);

/// What came of a kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillReport {
    /// Processes that had not ended within the limit, such as one in uninterruptible sleep. They have
    /// been sent SIGKILL; call again to see.
    pub remaining: Vec<i32>,
    /// How long it took.
    pub elapsed: Duration,
}

impl KillReport {
    /// True when nothing of the row is left.
    pub fn complete(&self) -> bool {
        self.remaining.is_empty()
    }
}

impl Isolation {
    /// SIGKILL for every process of the row, until none is left or 500 ms have passed. Isolated: all
    /// processes of its uid. Unisolated: its session, group, descendants, and what has its `HOME`.
    ///
    /// Collects ended children meanwhile; `reap` tells of them. Killing an empty row costs one system call.
    pub fn kill_everything(&self, id: &Identity) -> io::Result<KillReport> {
        let started = Instant::now();
        let row = self.members(id);
        let mut remaining = row.all_ended(Duration::ZERO);
        while !remaining.is_empty() && started.elapsed() < LIMIT {
            row.signal(&remaining)?;
            remaining = row.all_ended(ROUND.min(LIMIT.saturating_sub(started.elapsed())));
        }
        reap::collect();
        if remaining.is_empty() {
            self.leaders.borrow_mut().remove(&id.row);
        }
        Ok(KillReport { remaining, elapsed: started.elapsed() })
    }

    fn members(&self, id: &Identity) -> Members {
        #[cfg(target_os = "linux")]
        if self.settings.isolated {
            return Members::Uid(id.uid);
        }
        Members::Row {
            leader: self.leader(id.row),
            home: id.workspace.join("workspace").to_string_lossy().into_owned(),
        }
    }
}

/// How to find the processes of a row.
enum Members {
    #[cfg(target_os = "linux")]
    Uid(u32),
    Row {
        leader: Option<Leader>,
        home: String,
    },
}

impl Members {
    /// Waits until the row has no process but zombies; returns those still alive after `limit`.
    fn all_ended(&self, limit: Duration) -> Vec<i32> {
        let deadline = Instant::now() + limit;
        let mut pause = Duration::from_micros(200);
        loop {
            reap::collect();
            let alive = self.alive();
            if alive.is_empty() || Instant::now() >= deadline {
                return alive;
            }
            sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }

    fn alive(&self) -> Vec<i32> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Uid(uid) if !kernel_knows(*uid) => Vec::new(),
            #[cfg(target_os = "linux")]
            Self::Uid(uid) => processes::alive_of(*uid),
            Self::Row { leader, home } => row_alive(*leader, home),
        }
    }

    fn signal(&self, alive: &[i32]) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Uid(uid) => by_uid::signal(*uid),
            Self::Row { leader, .. } => {
                if let Some(leader) = leader.filter(|leader| alive.contains(&leader.pid)) {
                    let _ = sys::kill(-leader.pid, libc::SIGKILL);
                }
                // Stopped first, so that none forks away while the others are signalled.
                for signal in [libc::SIGSTOP, libc::SIGKILL] {
                    for &pid in alive {
                        let _ = sys::kill(pid, signal);
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn row_alive(leader: Option<Leader>, home: &str) -> Vec<i32> {
    processes::alive_of_row(leader, home)
}

/// Without `/proc` the process group is all there is to see.
#[cfg(not(target_os = "linux"))]
fn row_alive(leader: Option<Leader>, home: &str) -> Vec<i32> {
    let found = processes::alive_of_row(leader, home);
    let group = leader.filter(|leader| sys::kill(-leader.pid, 0).is_ok());
    found.into_iter().chain(group.map(|leader| leader.pid)).collect()
}

/// Whether any process, zombies included, has that real uid: one system call instead of a walk
/// through `/proc`. A kernel that does not implement it (gVisor) answers yes, and the walk follows.
#[cfg(target_os = "linux")]
fn kernel_knows(uid: u32) -> bool {
    // SAFETY: takes numbers only.
    let found = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_USER, uid) };
    found >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

#[cfg(target_os = "linux")]
mod by_uid {
    use std::io;

    use crate::isolation::identity::KILLER_UID;
    use crate::isolation::sys::{self, check, explain};
    use crate::isolation::{capabilities, reap};

    /// `kill(-1)` reaches what the sender may signal and nothing can fork away from it. So a helper
    /// takes the row's uid as its effective one. Its real and saved uid belong to nobody, so that the row
    /// cannot kill it first.
    pub(super) fn signal(uid: u32) -> io::Result<()> {
        // SAFETY: the child only makes system calls and exits.
        let helper = unsafe { sys::fork() }?;
        let Some(helper) = helper else {
            let code = match become_killer(uid) {
                Ok(()) => {
                    let _ = sys::kill(-1, libc::SIGKILL);
                    0
                }
                Err(error) => error.raw_os_error().unwrap_or(255),
            };
            sys::exit_now(code)
        };
        let status = sys::wait(helper, 0)?.map_or(0, |(_, status)| status);
        reap::collect();
        if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
            return Ok(());
        }
        let error = io::Error::from_raw_os_error(libc::WEXITSTATUS(status));
        Err(explain(error, format!("the helper that kills uid {uid} ended with wait status {status}; expected 0")))
    }

    fn become_killer(uid: u32) -> io::Result<()> {
        // SAFETY: takes numbers only.
        check(unsafe { libc::setresuid(KILLER_UID, uid, KILLER_UID) })?;
        // With a capability left, the kill would reach every process of the container.
        capabilities::drop_all()
    }
}
