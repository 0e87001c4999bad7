//! How much memory programs use.

use crate::machine::processes::Process;
use std::fs;
use std::sync::LazyLock;

/// Together. gVisor knows what all programs of its sandbox use, and has no proportional shares. Elsewhere, resident pages that several share are counted once where that decides: their sum is cheap, the
/// proportional shares are exact and read only when the sum has passed the mark.
pub fn total_bytes(programs: &[Process], mark_bytes: u64) -> u64 {
    if *IS_GVISOR && let Some(bytes) = fs::read_to_string("/proc/meminfo").ok().and_then(|text| anonymous(&text)) {
        return bytes;
    }
    let sum: u64 = programs.iter().map(|process| process.resident_pages * page_bytes()).sum();
    if sum < mark_bytes { sum } else { programs.iter().map(own_bytes).sum() }
}

/// A program's own share: proportional where the kernel tells it, else what is resident.
pub fn own_bytes(process: &Process) -> u64 {
    proportional(process.pid).unwrap_or_else(|| process.resident_pages * page_bytes())
}

/// How many programs the kernel has killed for want of memory in this machine's cgroup; `None` where it cannot be seen.
pub fn kernel_kills() -> Option<u64> {
    let files = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];
    files.iter().find_map(|file| kills(&fs::read_to_string(file).ok()?))
}

fn kills(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

static IS_GVISOR: LazyLock<bool> =
    LazyLock::new(|| fs::read_to_string("/proc/version").is_ok_and(|text| text.to_lowercase().contains("gvisor")));

/// Memory of programs from `/proc/meminfo` of gVisor, which counts files of tmpfs as anonymous too.
fn anonymous(text: &str) -> Option<u64> {
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some(kib("AnonPages:")?.saturating_sub(kib("Shmem:")?) << 10)
}

fn proportional(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn page_bytes() -> u64 {
    // SAFETY: takes a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::{anonymous, kills};

    #[test]
    fn files_in_memory_are_no_program() {
        let text = "MemTotal:  2000 kB\nAnonPages:        1272 kB\nMapped: 8780 kB\nShmem:                72 kB\n";
        assert_eq!(anonymous(text), Some(1200 << 10));
        assert_eq!(anonymous("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn kills_are_counted_in_both_versions_of_cgroups() {
        assert_eq!(kills("low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n"), Some(2));
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"), Some(5));
        assert_eq!(kills("oom_kill_disable 0\nunder_oom 0\n"), None);
    }
}
