//! Ends every process of a row, and makes sure of it.

use std::io;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use super::own_groups;
use super::processes::Leader;
use super::{Identity, Isolation, processes, reap, sys};

/// How long `kill_everything` waits at most.
const LIMIT: Duration = Duration::from_millis(500);

/// Kills again at this interval: a process may just have been born outside the first kill's sight.
const ROUND: Duration = Duration::from_millis(50);

/// Between the first two looks whether all have ended.
const FIRST_PAUSE: Duration = Duration::from_micros(100);

/// From this pause between two looks on, the look is a thorough one.
const FIRST_LOOK: Duration = Duration::from_millis(2);

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
    /// Collects ended children meanwhile; `reap` tells of them. Killing an empty isolated row costs one system call.
    pub fn kill_everything(&self, id: &Identity) -> io::Result<KillReport> {
        let started = Instant::now();
        let row = self.members(id);
        let mut remaining = Vec::new();
        // The signal comes first: beside a fork bomb this process gets its turn seldom, and a look
        // through /proc costs a thousand times the kill.
        while row.may_live() || (remaining.is_empty() && row.may_hide()) {
            row.signal()?;
            remaining = row.all_ended(ROUND);
            if remaining.is_empty() || started.elapsed() >= LIMIT {
                break;
            }
        }
        reap::collect();
        if remaining.is_empty() {
            self.leaders.borrow_mut().remove(&id.uid);
        }
        Ok(KillReport { remaining, elapsed: started.elapsed() })
    }

    /// Only the SIGKILL, without waiting. To end many rows, signal each, then call `kill_everything` for each:
    /// the waits, some milliseconds a row while the kernel frees its mounts, then overlap.
    pub fn signal_everything(&self, id: &Identity) -> io::Result<()> {
        let row = self.members(id);
        if row.may_live() || row.may_hide() { row.signal() } else { Ok(()) }
    }

    /// Whether nothing of the row is left; never waits. `thorough`: looks through `/proc` where the kernel does not tell
    /// at once, which takes milliseconds.
    pub fn is_gone(&self, id: &Identity, thorough: bool) -> bool {
        let row = self.members(id);
        let gone = !row.may_live() || (thorough && row.alive().is_empty());
        if gone {
            self.leaders.borrow_mut().remove(&id.uid);
        }
        gone
    }

    fn members(&self, id: &Identity) -> Members {
        #[cfg(target_os = "linux")]
        if self.settings.isolated {
            return match &id.pids {
                Some(group) => Members::Group { uid: id.uid, group: group.clone() },
                None => Members::Uid(id.uid),
            };
        }
        Members::Row {
            leader: self.leader(id.uid),
            home: id.workspace.join("workspace").to_string_lossy().into_owned(),
        }
    }
}

/// How to find the processes of a row.
enum Members {
    #[cfg(target_os = "linux")]
    Uid(u32),
    /// Of that uid in a group: its kernel does not tell by the uid, and a walk through `/proc` costs it milliseconds.
    #[cfg(target_os = "linux")]
    Group {
        uid: u32,
        group: PathBuf,
    },
    Row {
        leader: Option<Leader>,
        home: String,
    },
}

impl Members {
    /// Cheap where it can be; true does not promise a live process.
    fn may_live(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Uid(uid) => kernel_knows(*uid),
            #[cfg(target_os = "linux")]
            Self::Group { uid, group } => !own_groups::alive_in(group, *uid).is_empty(),
            Self::Row { leader, home } => !row_alive(*leader, home).is_empty(),
        }
    }

    /// Whether processes of the row can be where `may_live` does not look: a program with an older helper enters no group of
    /// processes, and what it started before it was put there stays outside. A signal by the uid meets them all.
    fn may_hide(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Group { .. } => true,
            _ => false,
        }
    }

    /// Waits until the row has no process but zombies; returns those still alive after `limit`.
    fn all_ended(&self, limit: Duration) -> Vec<i32> {
        let deadline = Instant::now() + limit;
        let mut pause = FIRST_PAUSE;
        loop {
            reap::collect();
            if !self.may_live() {
                return Vec::new();
            }
            // What is left may be zombies that somebody else has to collect.
            if pause > FIRST_LOOK || Instant::now() >= deadline {
                let alive = self.alive();
                if alive.is_empty() || Instant::now() >= deadline {
                    return alive;
                }
            }
            sleep(pause);
            pause = (pause * 3 / 2).min(Duration::from_millis(5));
        }
    }

    fn alive(&self) -> Vec<i32> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Uid(uid) => processes::alive_of(*uid),
            #[cfg(target_os = "linux")]
            Self::Group { uid, group } => own_groups::alive_in(group, *uid),
            Self::Row { leader, home } => row_alive(*leader, home),
        }
    }

    fn signal(&self) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Uid(uid) | Self::Group { uid, .. } => by_uid::signal(*uid),
            Self::Row { leader, .. } => {
                let alive = self.alive();
                if let Some(leader) = leader.filter(|leader| alive.contains(&leader.pid)) {
                    let _ = sys::kill(-leader.pid, libc::SIGKILL);
                }
                // Stopped first, so that none forks away while the others are signalled.
                for signal in [libc::SIGSTOP, libc::SIGKILL] {
                    for &pid in &alive {
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
    use crate::isolation::prepare::forbid_dumps;
    use crate::isolation::sys::{self, check, explain};

    const ROOT: u32 = 0;

    /// `kill(-1)` reaches whatever the sender may signal, and nothing can fork away from it. So the agent
    /// takes the row's uid as its effective one for that call, which also puts its capabilities aside. Its
    /// real uid then belongs to nobody and its saved one is root's, so that the row cannot signal it.
    ///
    /// No helper process: beside a fork bomb it would wait for its turn longer than the kill may take.
    pub(super) fn signal(uid: u32) -> io::Result<()> {
        take_ids(KILLER_UID, uid, ROOT)
            .map_err(|error| explain(error, format!("cannot take uid {uid} to end its processes")))?;
        let killed = sys::kill(-1, libc::SIGKILL);
        // Half an identity would let everything that follows fail in confusing ways.
        take_ids(ROOT, ROOT, ROOT).expect("root is the saved uid");
        forbid_dumps()?;
        match killed {
            // Nobody was left to signal.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other,
        }
    }

    /// The system call itself: the C library's wrapper would change every thread.
    fn take_ids(real: u32, effective: u32, saved: u32) -> io::Result<()> {
        // SAFETY: takes numbers only.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, real, effective, saved) };
        check(result as libc::c_int).map(drop)
    }
}
