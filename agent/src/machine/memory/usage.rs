//! How much memory programs use.

use crate::machine::processes::Process;
use std::fs;

/// Together. Resident pages that several share are counted once where that decides: their sum is cheap, the
/// proportional shares are exact and read only when the sum has passed the mark.
pub fn total_bytes(programs: &[Process], mark_bytes: u64) -> u64 {
    let sum: u64 = programs.iter().map(|process| process.resident_pages * page_bytes()).sum();
    if sum < mark_bytes { sum } else { programs.iter().map(own_bytes).sum() }
}

/// A program's own share: proportional where the kernel tells it, else what is resident.
pub fn own_bytes(process: &Process) -> u64 {
    proportional(process.pid).unwrap_or_else(|| process.resident_pages * page_bytes())
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
