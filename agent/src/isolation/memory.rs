//! Memory of the rows: out-of-memory kills of a row's cgroup, and proportional set size (PSS) sampled in
//! a forked helper, because reading it takes about a millisecond a process.

use std::fs;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use std::path::Path;

use super::{Identity, Isolation, Settings, reap, sys};

const ROLLUP: &str = "smaps_rollup";

/// PSS in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySample {
    /// Uid and the sum over its processes, in the order asked for.
    pub rows: Vec<(u32, u64)>,
    /// The template, if one was named.
    pub template: Option<u64>,
    /// The agent; `None` if the helper ended before it came to it.
    pub agent: Option<u64>,
}

/// A sample on its way.
pub struct MemorySampler {
    helper: i32,
    pipe: File,
    received: Vec<u8>,
}

impl Isolation {
    /// How often the kernel killed a process in the row's memory cgroup since it was made; 0 without one.
    pub fn oom_kills(&self, id: &Identity) -> u64 {
        let Some(folder) = &id.memory else { return 0 };
        if self.settings.own_groups {
            return self.memory_ends(folder);
        }
        // Version 1, then version 2.
        ["memory.oom_control", "memory.events"]
            .iter()
            .find_map(|name| fs::read_to_string(folder.join(name)).ok())
            .and_then(|text| {
                let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
                count.trim().parse().ok()
            })
            .unwrap_or(0)
    }
}

impl Isolation {
    /// Where the figures of a sample come from: proportional shares of processes, or what the groups count. (A saved state's is
    /// then the resident memory of its processes: all states share a group.)
    pub fn memory_method(&self) -> &'static str {
        if self.settings.own_groups { "memory_group" } else { ROLLUP }
    }

    /// Lets the processes of `source` put a fork into the memory cgroup of `id`; with `None` the template's again.
    ///
    /// Call it before and after the fork of a live environment: only the template's group may enter by itself, and the
    /// kernel lets no process of a container move another.
    pub fn allow_memory_entry(&self, id: &Identity, source: Option<&Identity>) -> io::Result<()> {
        let gid = source.map_or(self.settings.template_uid, |source| source.gid);
        for folder in id.memory.iter().chain(&id.pids) {
            // Only version 1 has it, and only where the sandbox was given it too.
            let _ = std::os::unix::fs::chown(folder.join("tasks"), None, Some(gid));
            let path = folder.join("cgroup.procs");
            std::os::unix::fs::chown(&path, None, Some(gid))
                .map_err(|error| sys::explain(error, format!("cannot give {path:?} to group {gid}")))?;
        }
        Ok(())
    }
}

impl MemorySampler {
    /// Starts a sample of `rows` (uid, first process, identity), of the template and of the agent.
    /// Wait for `fd` to become readable, then `read`. Linux only.
    pub fn start(isolation: &Isolation, rows: &[(u32, i32, Identity)], template: Option<i32>) -> io::Result<Self> {
        if cfg!(not(target_os = "linux")) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "memory is sampled from /proc/<pid>/smaps_rollup, which only Linux has; ask for status without memory",
            ));
        }
        let (read, write) = sys::pipe()?;
        sys::non_blocking(read.as_raw_fd())?;
        let agent = std::process::id().cast_signed();
        // SAFETY: the agent has one thread, so the child may allocate; it ends by exit_now.
        match unsafe { sys::fork() }? {
            None => {
                sample(write, &isolation.settings, rows, template, agent);
                sys::exit_now(0)
            }
            Some(helper) => {
                reap::remember_helper(helper);
                Ok(Self { helper, pipe: read.into(), received: Vec::new() })
            }
        }
    }

    /// Readable when `read` may have more.
    pub fn fd(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }

    /// The sample once it is complete; never waits.
    pub fn read(&mut self) -> Option<MemorySample> {
        match self.pipe.read_to_end(&mut self.received) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            _ => Some(parse(&String::from_utf8_lossy(&self.received))),
        }
    }
}

impl Drop for MemorySampler {
    fn drop(&mut self) {
        if reap::forget_helper(self.helper) {
            let _ = sys::kill(self.helper, libc::SIGKILL);
            let _ = sys::wait(self.helper, 0);
        }
    }
}

/// Lines `row <row> <bytes>`, `template <bytes>`, and last `agent <bytes>`.
fn parse(text: &str) -> MemorySample {
    let mut sample = MemorySample::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["row", row, bytes] => {
                if let (Ok(row), Ok(bytes)) = (row.parse(), bytes.parse()) {
                    sample.rows.push((row, bytes));
                }
            }
            ["template", bytes] => sample.template = bytes.parse().ok(),
            ["agent", bytes] => sample.agent = bytes.parse().ok(),
            _ => {}
        }
    }
    sample
}

#[cfg(not(target_os = "linux"))]
fn sample(_: OwnedFd, _: &Settings, _: &[(u32, i32, Identity)], _: Option<i32>, _: i32) {}

#[cfg(target_os = "linux")]
fn sample(write: OwnedFd, settings: &Settings, rows: &[(u32, i32, Identity)], template: Option<i32>, agent: i32) {
    use std::io::Write;

    const OUTPUT: RawFd = 3;
    // Nothing of the agent's may stay open here: an environment would wait for its end of file.
    if sys::duplicate_onto(write.as_raw_fd(), OUTPUT).is_err() {
        return;
    }
    std::mem::forget(write);
    sys::close_from(OUTPUT + 1);
    // SAFETY: takes numbers only. Environments go first.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    // SAFETY: the descriptor was placed above and nothing else here owns it.
    let mut output: File = unsafe { std::os::fd::FromRawFd::from_raw_fd(OUTPUT) };
    if let (true, Some(groups)) = (settings.own_groups, &settings.memory_dir) {
        return sample_groups(output, settings, groups, rows);
    }
    let by_row = row_processes(settings.isolated, rows);
    for ((row, ..), pids) in rows.iter().zip(by_row) {
        let bytes: u64 = pids.into_iter().map(proportional_set_size).sum();
        let _ = writeln!(output, "row {row} {bytes}");
    }
    if let Some(pid) = template {
        let _ = writeln!(output, "template {}", proportional_set_size(pid));
    }
    let _ = writeln!(output, "agent {}", proportional_set_size(agent));
}

/// What no group counts is the agent's own.
#[cfg(target_os = "linux")]
fn sample_groups(mut output: File, settings: &Settings, groups: &Path, rows: &[(u32, i32, Identity)]) {
    use std::io::Write;

    use super::own_groups::{template_bytes, usage_bytes};

    let template = template_bytes(groups);
    for (uid, pid, id) in rows {
        let own = id.memory.as_deref().filter(|group| Some(*group) != settings.states_memory.as_deref());
        let bytes = own.map_or_else(|| resident_bytes(*pid), usage_bytes);
        let _ = writeln!(output, "row {uid} {bytes}");
    }
    let _ = writeln!(output, "template {template}");
    let counted: u64 = group_folders(groups).map(|group| usage_bytes(&group)).sum();
    let _ = writeln!(output, "agent {}", usage_bytes(groups).saturating_sub(counted));
}

#[cfg(target_os = "linux")]
fn group_folders(groups: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir(groups).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

/// 0 for a process that has ended.
#[cfg(target_os = "linux")]
fn resident_bytes(pid: i32) -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * PAGE_BYTES)
}

#[cfg(target_os = "linux")]
fn row_processes(isolated: bool, rows: &[(u32, i32, Identity)]) -> Vec<Vec<i32>> {
    use std::collections::HashMap;

    use super::processes::{self, Leader};

    if isolated {
        let mut by_uid: HashMap<u32, Vec<i32>> = HashMap::new();
        for pid in processes::pids() {
            if let Some(uid) = processes::real_uid(pid) {
                by_uid.entry(uid).or_default().push(pid);
            }
        }
        return rows.iter().map(|(_, _, id)| by_uid.remove(&id.uid).unwrap_or_default()).collect();
    }
    rows.iter()
        .map(|(_, pid, id)| {
            let home = id.workspace.join("workspace");
            processes::alive_of_row(Some(Leader::of(*pid)), &home.to_string_lossy())
        })
        .collect()
}

/// 0 for a process that has ended.
#[cfg(target_os = "linux")]
fn proportional_set_size(pid: i32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/{ROLLUP}")).unwrap_or_default();
    rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))
        .and_then(|value| value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map_or(0, |kibibytes| kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_cut_short_has_no_figure_for_the_agent() {
        let sample = parse("row 3 4096\nrow 4 8192\ntemplate 100\nag");
        assert_eq!(sample.rows, [(3, 4096), (4, 8192)]);
        assert_eq!((sample.template, sample.agent), (Some(100), None));
    }
}
