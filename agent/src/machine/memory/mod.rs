//! The machine's memory: its largest program is killed before the sandbox as a whole would be.

mod usage;

use super::processes::{self, Process};
use super::run::Machine;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(100);

/// Percent of the limit at which a program is killed.
const MARK_PERCENT: u64 = 95;

/// When memory is looked at next.
#[derive(Default)]
pub struct MemoryWatch {
    next: Option<Instant>,
    /// Whom the last look killed: its memory is given back in the time of a few looks.
    killed: Option<i32>,
    /// Kills by the kernel that were seen.
    kernel_kills: Option<u64>,
}

impl MemoryWatch {
    /// Whether the kernel has killed something for want of memory since the last call.
    pub fn kernel_has_killed(&mut self) -> bool {
        let before = self.kernel_kills;
        self.kernel_kills = usage::kernel_kills();
        before.zip(self.kernel_kills).is_some_and(|(before, now)| now > before)
    }
}

impl Machine {
    /// The next look; none without a limit or without programs.
    pub(super) fn memory_deadline(&self) -> Option<Instant> {
        let needed = self.settings.memory_bytes.is_some() && self.execs.all().any(|exec| exec.keeper_pid().is_some());
        needed.then(|| self.memory.next.unwrap_or_else(Instant::now))
    }

    /// Looks at what programs use, once it is time.
    pub(super) fn memory_tick(&mut self, now: Instant) {
        let Some(limit_bytes) = self.settings.memory_bytes else { return };
        if self.memory_deadline().is_none() || self.memory.next.is_some_and(|next| next > now) {
            return;
        }
        self.memory.next = Some(now + PERIOD);
        let all = processes::all();
        if self.memory.killed.is_some_and(|pid| all.iter().any(|process| process.pid == pid && !process.ended)) {
            return;
        }
        self.memory.killed = None;
        let keepers: Vec<(String, i32)> =
            self.execs.all().filter_map(|exec| Some((exec.id.clone(), exec.keeper_pid()?))).collect();
        let programs: Vec<(usize, Process)> = keepers
            .iter()
            .enumerate()
            .flat_map(|(at, (_, keeper))| processes::descendants(&all, *keeper).into_iter().map(move |one| (at, one)))
            .collect();
        let mark_bytes = limit_bytes / 100 * MARK_PERCENT;
        let members: Vec<Process> = programs.iter().map(|(_, process)| *process).collect();
        if usage::total_bytes(&members, mark_bytes) < mark_bytes {
            return;
        }
        let largest = programs.iter().max_by_key(|(_, process)| usage::own_bytes(process));
        if let Some((at, process)) = largest {
            self.kill_for_memory(&keepers[*at].0.clone(), process.pid);
        }
    }

    fn kill_for_memory(&mut self, id: &str, pid: i32) {
        // SAFETY: takes numbers only; the process was seen below its keeper a moment ago.
        if unsafe { libc::kill(pid, libc::SIGKILL) } == 0 {
            self.memory.killed = Some(pid);
            self.execs.of_id(id).into_iter().for_each(super::exec::Exec::mark_oom_killed);
        }
    }
}
