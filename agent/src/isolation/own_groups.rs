//! Groups for memory and processes that the agent makes itself, where the sandbox has a kernel of its own (gVisor). That kernel
//! bounds a group's processes; its memory it only counts, so the agent looks, and ends what passes its limit. Version 1, one
//! hierarchy for each. Limits by user (`RLIMIT_NPROC`) mean nothing to that kernel.

use std::ffi::CStr;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::identity::OWN_PIDS;
use super::launch::c_string;
use super::sys::explain;
use super::{Identity, Isolation, Settings, mounts, processes};

const TEMPLATE: &str = "template";
const TEMPLATE_FORKS: u64 = 64;
const USAGE: &str = "memory.usage_in_bytes";

/// Mounts both and makes the template's groups.
pub(super) fn prepare(settings: &Settings) -> io::Result<()> {
    let Some(memory) = &settings.memory_dir else {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "own_groups is true; expected a memory_dir to make them in",
        ));
    };
    mount(memory, c"memory")?;
    mount(Path::new(OWN_PIDS), c"pids")?;
    make(&memory.join(TEMPLATE), None)?;
    let processes = Path::new(OWN_PIDS).join(TEMPLATE);
    make(&processes, None)?;
    // Forks leave it before they do anything else.
    limit(&processes, settings.processes.saturating_add(TEMPLATE_FORKS))
}

fn mount(folder: &Path, controller: &CStr) -> io::Result<()> {
    let explained = |error| explain(error, format!("cannot mount the groups of {controller:?} on {folder:?}"));
    fs::create_dir_all(folder).map_err(explained)?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let target = c_string(folder.to_string_lossy().into_owned())?;
    mounts::mount(c"none", &target, Some(c"cgroup"), flags, Some(controller)).map_err(explained)
}

/// A group, which members of the group of users `enter` may enter.
fn make(folder: &Path, enter: Option<u32>) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(explain(error, format!("cannot make the group {folder:?}")));
        }
        _ => {}
    }
    let Some(gid) = enter else { return Ok(()) };
    for name in ["cgroup.procs", "tasks"] {
        let path = folder.join(name);
        chown(&path, Some(0), Some(gid))?;
        fs::set_permissions(&path, Permissions::from_mode(0o664))?;
    }
    Ok(())
}

fn limit(folder: &Path, processes: u64) -> io::Result<()> {
    fs::write(folder.join("pids.max"), processes.to_string())
        .map_err(|error| explain(error, format!("cannot limit the processes of {folder:?}")))
}

/// Puts the process where it should have gone by itself: a program with an older helper does not know the group of processes.
pub(super) fn put(id: &Identity, pid: i32) {
    if let Some(group) = &id.pids {
        // It may have ended.
        let _ = fs::write(group.join("cgroup.procs"), pid.to_string());
    }
}

/// Processes of that uid in a group that have not ended.
pub(super) fn alive_in(group: &Path, uid: u32) -> Vec<i32> {
    let count = fs::read_to_string(group.join("pids.current")).unwrap_or_default();
    if count.trim() == "0" {
        return Vec::new();
    }
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|&pid| processes::is_alive_with(pid, uid)).collect()
}

/// What the group's processes and files use; 0 for one that is not there.
pub(super) fn usage_bytes(group: &Path) -> u64 {
    fs::read_to_string(group.join(USAGE)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// The files to whose writers of `0` the template's groups belong.
pub(super) fn template_entries(settings: &Settings) -> Vec<PathBuf> {
    let folders = [settings.memory_dir.clone().unwrap_or_default(), PathBuf::from(OWN_PIDS)];
    folders.into_iter().map(|folder| folder.join(TEMPLATE).join("cgroup.procs")).collect()
}

/// Of the template's group.
pub(super) fn template_bytes(memory_dir: &Path) -> u64 {
    usage_bytes(&memory_dir.join(TEMPLATE))
}

impl Isolation {
    /// Makes the groups that the identity is to enter; those that are there get its limits. Nothing without own groups.
    pub(super) fn make_own_groups(&self, id: &Identity) -> io::Result<()> {
        let (Some(memory), Some(pids)) = (&id.memory, &id.pids) else { return Ok(()) };
        let is_shared = self.settings.states_memory.as_ref() == Some(memory);
        // That of the states may be lent at this moment.
        if is_shared && memory.exists() {
            return Ok(());
        }
        for folder in [memory, pids] {
            make(folder, Some(self.settings.template_uid))?;
        }
        let processes = id.limits.processes.unwrap_or(u64::from(u32::MAX));
        limit(pids, if is_shared { processes.saturating_add(self.settings.states.into()) } else { processes })
    }
}
