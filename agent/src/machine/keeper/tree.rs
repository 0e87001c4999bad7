//! Ending a tree of processes that may not want to end.

use crate::machine::processes::{self, Process};
use std::collections::{BTreeSet, HashSet};

/// A tree that forks faster than it is looked through is stopped in at most this many looks a round.
const LOOKS: usize = 32;

/// Signals everything below the calling process; returns how many got it.
pub fn signal(number: i32) -> usize {
    let below = below();
    if number == libc::SIGTERM || number == libc::SIGHUP {
        // What is stopped would not see it.
        let count = send(&below, number);
        send(&below, libc::SIGCONT);
        return count;
    }
    send(&below, number)
}

/// One round of KILL: all that lives is stopped first, so that nothing forks away from under the looks.
pub fn kill() {
    let mut known = HashSet::new();
    for _ in 0..LOOKS {
        let below = below();
        let fresh: Vec<Process> = below.into_iter().filter(|process| known.insert(process.pid)).collect();
        if fresh.is_empty() {
            break;
        }
        signal_groups(&fresh, libc::SIGSTOP);
        send(&fresh, libc::SIGSTOP);
    }
    let below = below();
    signal_groups(&below, libc::SIGKILL);
    send(&below, libc::SIGKILL);
}

fn below() -> Vec<Process> {
    processes::descendants(&processes::all(), std::process::id().cast_signed())
}

fn send(to: &[Process], number: i32) -> usize {
    // SAFETY: takes numbers only; the processes are descendants, seen a moment ago.
    to.iter().filter(|process| unsafe { libc::kill(process.pid, number) } == 0).count()
}

/// A signal to a group reaches all of it at once: a fork in progress in one of its members starts over.
fn signal_groups(of: &[Process], number: i32) {
    // SAFETY: takes no argument.
    let own = unsafe { libc::getpgrp() };
    let groups: BTreeSet<i32> =
        of.iter().map(|process| process.group).filter(|&group| group > 1 && group != own).collect();
    for group in groups {
        // SAFETY: takes numbers only; each program has a session of its own, so no other tree is in its groups.
        unsafe { libc::kill(-group, number) };
    }
}
