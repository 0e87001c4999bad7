//! Finds and ends everything that belongs to a machine, whoever its parent is by now.

use super::identity::{self, Identity};
use super::namespaces::HOLDER_FILE;
use super::settings::{Settings, Uids};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(5);

/// Kills until nothing is left, or the limit has passed; returns what is left.
pub fn end_all(settings: &Settings, folder: &Path, limit: Duration) -> Vec<i32> {
    let deadline = Instant::now() + limit;
    let holder = Identity::read(&folder.join(HOLDER_FILE));
    loop {
        reap();
        let found = find(settings, holder.as_ref());
        if found.is_empty() || Instant::now() >= deadline {
            return found.into_iter().collect();
        }
        let open: BTreeMap<i32, _> =
            found.iter().filter_map(|&pid| Some((pid, identity::open_process(pid).ok()?))).collect();
        // Looked for again: a number may have gone to another process before its descriptor was made.
        let again = find(settings, holder.as_ref());
        for (_, process) in open.iter().filter(|(pid, _)| again.contains(pid)) {
            identity::kill(process);
        }
        sleep(PAUSE);
    }
}

/// Descendants of this process, members of the machine's cgroups, whoever has an id of its range, and the holder of its
/// namespaces, which as the host's root may be none of these.
fn find(settings: &Settings, holder: Option<&Identity>) -> BTreeSet<i32> {
    let mut found: BTreeSet<i32> = settings.groups.iter().flat_map(|group| members(group)).collect();
    found.extend(holder.filter(|holder| holder.open().is_some()).map(|holder| holder.pid));
    let processes: Vec<Status> = list_processes();
    if let Some(uids) = settings.uids {
        found.extend(processes.iter().filter(|process| process.has_id_of(uids)).map(|process| process.pid));
    }
    found.extend(descendants(&processes));
    let own = std::process::id() as i32;
    let alive: BTreeSet<i32> = processes.iter().map(|process| process.pid).collect();
    found.retain(|pid| *pid != own && alive.contains(pid));
    found
}

struct Status {
    pid: i32,
    parent: i32,
    ids: Vec<u32>,
}

impl Status {
    fn has_id_of(&self, uids: Uids) -> bool {
        self.ids.iter().any(|id| (uids.base..uids.base + uids.count).contains(id))
    }
}

/// All processes but zombies, of which nothing runs any more.
fn list_processes() -> Vec<Status> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| read_status(entry.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

fn read_status(pid: i32) -> Option<Status> {
    let bytes = fs::read(format!("/proc/{pid}/status")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let state = field("State:")?.trim_start();
    if state.starts_with(['Z', 'X']) {
        return None;
    }
    let ids = field("Uid:")?.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    Some(Status { pid, parent: field("PPid:")?.trim().parse().ok()?, ids })
}

fn descendants(processes: &[Status]) -> BTreeSet<i32> {
    let mut found = BTreeSet::from([std::process::id() as i32]);
    loop {
        let before = found.len();
        found.extend(
            processes
                .iter()
                .filter(|process| found.contains(&process.parent))
                .map(|process| process.pid)
                .collect::<Vec<_>>(),
        );
        if found.len() == before {
            return found;
        }
    }
}

/// Of a cgroup and those below it.
fn members(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut found: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(members(&entry.path()));
        }
    }
    found
}

/// Collects children that have ended; nobody asks for their status any more.
fn reap() {
    // SAFETY: no status is asked for.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}
