//! Who a row is: its uid, folders, memory cgroup and limits, and how a fork message says so.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::Isolation;

/// Real and saved uid of the helper that ends a row's processes; no row and no template has it.
pub(super) const KILLER_UID: u32 = 9999;

/// Folder of the rows' quota mounts, in the agent's mount namespace only.
pub(super) const WORKSPACES: &str = "/run/ws";

/// Out-of-memory score of an environment; agent and template stay as low as they may.
pub(super) const ENVIRONMENT_OOM_SCORE: i32 = 500;

/// Where the groups of processes are, where the agent makes them.
pub(super) const OWN_PIDS: &str = "/run/sandpool/pids";

const DESCRIPTORS: u64 = 4096;

/// One process's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Index of its first row in the pool.
    pub row: u32,
    /// Index in the shard.
    pub local: u32,
    /// How many rows it has.
    pub rows: u32,
    /// Uid of everything it starts.
    pub uid: u32,
    /// Gid of everything it starts.
    pub gid: u32,
    /// Folder with `workspace`, `tmp` and `shm`, as the agent sees it.
    pub workspace: PathBuf,
    /// Its memory cgroup.
    pub memory: Option<PathBuf>,
    /// Its group of processes, where the agent makes the groups.
    pub pids: Option<PathBuf>,
    /// Resource limits of everything it starts.
    pub limits: Limits,
}

/// Resource limits; `None` leaves what the agent has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// RLIMIT_AS, only without a memory cgroup.
    pub address_space_bytes: Option<u64>,
    /// RLIMIT_NPROC; counts every process and thread of the uid.
    pub processes: Option<u64>,
    /// RLIMIT_NOFILE.
    pub descriptors: Option<u64>,
}

impl Isolation {
    /// The identity of a process whose first of `rows` rows is `row` of the pool, number `local` among the processes
    /// of this shard. It may use what its rows together may.
    pub fn identity(&self, row: u32, local: u32, rows: u32) -> Identity {
        let settings = &self.settings;
        let times_rows = |amount: u64| amount.saturating_mul(u64::from(rows));
        let memory = match &settings.memory_dir {
            Some(folder) if settings.isolated => Some(folder.join(format!("e{local}"))),
            _ => None,
        };
        let folder = match &settings.workspaces {
            Some(folder) if !settings.isolated => folder.clone(),
            _ => PathBuf::from(WORKSPACES),
        };
        Identity {
            row,
            local,
            rows,
            uid: settings.base_uid + self.number_of(row),
            gid: settings.base_uid + self.number_of(row),
            workspace: folder.join(row.to_string()),
            limits: Limits {
                address_space_bytes: memory.is_none().then_some(self.together(settings.memory_bytes, rows)),
                // The limit counts a uid's processes; unisolated that would be all of the user's.
                processes: settings.isolated.then_some(times_rows(settings.processes)),
                descriptors: settings.isolated.then_some(DESCRIPTORS),
            },
            pids: self.pids_of(memory.as_deref()),
            memory,
        }
    }

    /// The group of processes that goes with a memory group.
    fn pids_of(&self, memory: Option<&Path>) -> Option<PathBuf> {
        let name = memory?.file_name()?;
        self.settings.own_groups.then(|| Path::new(OWN_PIDS).join(name))
    }

    /// The identity that a copy gets which is to take a row's place: the row's other one, so that whoever ends the old
    /// process by its uid never meets the new one.
    pub fn other_identity(&self, id: &Identity) -> Identity {
        let settings = &self.settings;
        let number = self.number_of(id.row);
        if id.uid != settings.base_uid + number {
            return self.identity(id.row, id.local, id.rows);
        }
        with_uid(id.clone(), settings.base_uid + self.processes() + settings.states + number)
    }

    /// The identity of the saved state in a slot, of the row `row`. Its memory group is that of all states.
    pub fn state_identity(&self, slot: u32, row: u32) -> Identity {
        let settings = &self.settings;
        let memory = settings.states_memory.clone().filter(|_| settings.isolated);
        let mut id = self.identity(row, 0, 1);
        id.limits.address_space_bytes = memory.is_none().then_some(settings.memory_bytes);
        id.pids = self.pids_of(memory.as_deref());
        id.memory = memory;
        with_uid(id, settings.base_uid + self.processes() + slot)
    }

    /// Says how many rows a process has, before any identity of them is asked for: uids are counted by processes.
    pub fn share(&self, rows_per_process: u32) {
        self.rows_per_process.set(rows_per_process.max(1));
    }

    /// The number of the process of a row, among all of the pool.
    fn number_of(&self, row: u32) -> u32 {
        row / self.rows_per_process.get()
    }

    /// Processes of the pool.
    fn processes(&self) -> u32 {
        self.settings.n.div_ceil(self.rows_per_process.get())
    }

    /// Processes that the template may have. Forks count against its uid until they take their own, so it has room
    /// for many at once; what it imports still cannot fork without end.
    pub(super) fn template_processes(&self) -> u64 {
        const FORKS_IN_FLIGHT: u64 = 4096;
        self.settings.processes.saturating_add(FORKS_IN_FLIGHT)
    }

    /// Bytes that rows of one process may use together.
    pub fn together(&self, bytes: u64, rows: u32) -> u64 {
        let most = self.settings.shard_memory_bytes.unwrap_or(u64::MAX);
        bytes.saturating_mul(u64::from(rows)).min(most.max(bytes))
    }

    /// The members of a fork message that this module owns: `workspace`, `uid`, `gid`, `memory`,
    /// `rlimits`, `oom_score_adj`, `isolated`, `branching`.
    pub fn fork_request(&self, id: &Identity) -> Map<String, Value> {
        // A fork cannot pass what its template may.
        let processes = id.limits.processes.map(|processes| processes.min(self.template_processes()));
        let members = json!({
            "workspace": id.workspace.to_string_lossy(),
            "uid": id.uid,
            "gid": id.gid,
            "memory": id.memory.as_ref().map(|path| path.to_string_lossy()),
            "pids": id.pids.as_ref().map(|path| path.to_string_lossy()),
            "rlimits": {"as": id.limits.address_space_bytes, "nproc": processes},
            "oom_score_adj": ENVIRONMENT_OOM_SCORE,
            "isolated": self.settings.isolated,
            "branching": self.settings.branching,
        });
        match members {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}

/// No row's folder has the name of a copy's.
fn with_uid(id: Identity, uid: u32) -> Identity {
    let workspace = id.workspace.with_file_name(format!("copy-{uid}"));
    Identity { uid, gid: uid, workspace, ..id }
}
