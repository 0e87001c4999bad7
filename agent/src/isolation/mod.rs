//! What keeps one environment from the others: its uid, mounts, limits, memory cgroup and system
//! call filters, and the certainty that a killed environment is gone.
//!
//! Isolated is Linux inside the worker's container. Unisolated works on any unix: plain folders and
//! process groups. The recipe and its reasons: `docs/internals/agent-channel.md`.

mod companions;
mod copies;
mod descriptors;
mod identity;
mod kill;
mod launch;
mod leftovers;
mod limits;
mod memory;
mod processes;
mod reap;
mod spawn;
mod sys;
mod watch;
mod workspace;

#[cfg(target_os = "linux")]
mod capabilities;
#[cfg(target_os = "linux")]
mod copy_data;
#[cfg(target_os = "linux")]
mod copy_files;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod own_groups;
#[cfg(target_os = "linux")]
mod prepare;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

pub use copies::{CopyFault, Files};
pub use descriptors::{Sender, announce_sender, receive_with_sender, send_descriptors};
pub use identity::{Identity, Limits};
pub use kill::KillReport;
pub use launch::{ChildFds, Program};
pub use memory::{MemorySample, MemorySampler};
pub use processes::cpu_seconds;
pub use reap::{Exit, reap};

/// Descriptor of the environment's own channel in every program the agent starts.
pub const CHANNEL_DESCRIPTOR: i32 = 3;

/// What the worker decided about a shard's isolation; the members of the `start` request.
#[derive(Clone, Debug)]
pub struct Settings {
    /// False: no uids, mounts, namespaces, filters or cgroups (driver `unisolated`).
    pub isolated: bool,
    /// Process i of the pool runs as uid and gid `base_uid + i`. Above 9999 when isolated. The uids of `states` saved
    /// states follow those of the pool's processes, and then each process's second one.
    pub base_uid: u32,
    /// Rows of the pool.
    pub n: u32,
    /// How many saved states there can be.
    pub states: u32,
    /// Uid and gid of the template.
    pub template_uid: u32,
    /// Quota of one row's `/workspace`, `/tmp` and `/dev/shm` together.
    pub workspace_bytes: u64,
    /// Files and folders a row may make in them.
    pub workspace_inodes: u64,
    /// Address space of a row that has no memory cgroup.
    pub memory_bytes: u64,
    /// What memory and files of a process of several rows never pass.
    pub shard_memory_bytes: Option<u64>,
    /// Folder with one memory cgroup `e0 …` for each process.
    pub memory_dir: Option<PathBuf>,
    /// Whether the agent makes the groups itself: the sandbox has a kernel of its own.
    pub own_groups: bool,
    /// The memory cgroup of all saved states.
    pub states_memory: Option<PathBuf>,
    /// Processes and threads of a row.
    pub processes: u64,
    /// Unisolated only: the folder on the host that holds the workspaces.
    pub workspaces: Option<PathBuf>,
    /// Whether live environments may fork.
    pub branching: bool,
}

/// Gives rows their identity, starts their programs and ends them.
pub struct Isolation {
    settings: Settings,
    rows_per_process: Cell<u32>,
    /// The first process of each identity, by its uid, as told by `spawn_environment` and `adopt`.
    leaders: RefCell<HashMap<u32, processes::Leader>>,
    /// What was ended for its memory, where the agent watches it.
    memory_ends: RefCell<HashMap<PathBuf, watch::MemoryEnd>>,
    #[cfg(target_os = "linux")]
    filters: Option<filter::Filters>,
}

impl Isolation {
    /// Prepares the agent itself: no dumps of its memory, the lowest out-of-memory score it may
    /// take, orphans come to it; isolated also `/run/ws` as a mount of its own.
    ///
    /// Fails when a setting is missing or out of range, or a capability is not held; the error names it.
    pub fn new(settings: Settings) -> io::Result<Self> {
        check_settings(&settings)?;
        #[cfg(target_os = "linux")]
        {
            prepare::agent(&settings)?;
            let filters = if settings.isolated { Some(filter::Filters::compile(settings.base_uid)?) } else { None };
            Ok(Self {
                settings,
                rows_per_process: Cell::new(1),
                leaders: RefCell::default(),
                memory_ends: RefCell::default(),
                filters,
            })
        }
        #[cfg(not(target_os = "linux"))]
        Ok(Self {
            settings,
            rows_per_process: Cell::new(1),
            leaders: RefCell::default(),
            memory_ends: RefCell::default(),
        })
    }

    /// Tells the isolation which process is the first of a row. Call it with the pid of a fork
    /// child's hello; `spawn_environment` does it itself.
    pub fn adopt(&self, id: &Identity, pid: i32) {
        self.leaders.borrow_mut().insert(id.uid, processes::Leader::of(pid));
        #[cfg(target_os = "linux")]
        {
            own_groups::put(id, pid);
            prepare::raise_oom_score(pid);
        }
    }

    fn leader(&self, uid: u32) -> Option<processes::Leader> {
        self.leaders.borrow().get(&uid).copied()
    }
}

fn check_settings(settings: &Settings) -> io::Result<()> {
    let refuse = |message: String| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    if !settings.isolated {
        return match &settings.workspaces {
            Some(folder) if folder.is_absolute() => Ok(()),
            other => refuse(format!(
                "workspaces is {other:?}; without isolation it must be an absolute path of a folder on the host"
            )),
        };
    }
    if cfg!(not(target_os = "linux")) {
        return refuse("isolated is true; only Linux can isolate, send isolated false".to_owned());
    }
    if settings.base_uid <= identity::KILLER_UID {
        return refuse(format!(
            "base_uid is {}; expected above {}, which ends environments",
            settings.base_uid,
            identity::KILLER_UID
        ));
    }
    if settings.template_uid == 0 || settings.template_uid >= identity::KILLER_UID {
        return refuse(format!(
            "template_uid is {}; expected 1 to {}",
            settings.template_uid,
            identity::KILLER_UID - 1
        ));
    }
    Ok(())
}
