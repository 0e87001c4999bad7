//! What `/proc` says about processes.

use std::fs;

/// The first process of a row. The start time tells it from a later process with the same number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leader {
    pub(super) pid: i32,
    started: Option<u64>,
}

impl Leader {
    pub(super) fn of(pid: i32) -> Self {
        Self { pid, started: stat(pid).map(|process| process.started) }
    }
}

/// One line of `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) pid: i32,
    parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    pub(super) ended: bool,
    started: u64,
    ticks: u64,
}

/// Processor time of a process, user and system, in seconds; `None` once it is reaped or without `/proc`.
pub fn cpu_seconds(pid: i32) -> Option<f64> {
    // SAFETY: takes a number only.
    let ticks_per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let process = stat(pid)?;
    (ticks_per_second > 0).then(|| process.ticks as f64 / ticks_per_second as f64)
}

/// Every process this one can see.
pub(super) fn all() -> Vec<Process> {
    pids().filter_map(stat).collect()
}

/// Processes with that real uid that have not ended.
#[cfg(target_os = "linux")]
pub(super) fn alive_of(uid: u32) -> Vec<i32> {
    pids().filter(|&pid| is_alive_with(pid, uid)).collect()
}

/// Processes of an unisolated row that have not ended: its session and group, what descends from
/// them, and what carries the row's `HOME`, which finds daemons that left all of these.
pub(super) fn alive_of_row(leader: Option<Leader>, home: &str) -> Vec<i32> {
    let all = all();
    let leader = leader.filter(|leader| {
        let now = all.iter().find(|process| process.pid == leader.pid);
        // While a session or group has members its number is not given away again.
        now.is_none_or(|process| Some(process.started) == leader.started)
    });
    let belongs = |process: &Process| {
        leader.is_some_and(|leader| [process.pid, process.group, process.session].contains(&leader.pid))
            || has_home(process.pid, home)
    };
    let mut members: Vec<i32> = all.iter().filter(|process| belongs(process)).map(|process| process.pid).collect();
    loop {
        let found = all
            .iter()
            .filter(|process| members.contains(&process.parent) && !members.contains(&process.pid))
            .map(|process| process.pid)
            .collect::<Vec<_>>();
        if found.is_empty() {
            break;
        }
        members.extend(found);
    }
    let ended = |pid: &i32| all.iter().any(|process| process.pid == *pid && process.ended);
    members.retain(|pid| !ended(pid));
    members
}

/// True for a process with that real uid that has not ended.
pub(super) fn is_alive_with(pid: i32, uid: u32) -> bool {
    real_uid(pid) == Some(uid) && stat(pid).is_some_and(|process| !process.ended)
}

/// Real uid of a process, also of one that is not dumpable, whose files belong to root.
pub(super) fn real_uid(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_whitespace().next()?.parse().ok()
}

pub(super) fn pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn has_home(pid: i32, home: &str) -> bool {
    let wanted = format!("HOME={home}");
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|pair| pair == wanted.as_bytes()))
}

/// The name in parentheses may hold spaces and parentheses itself: fields count from the last one.
fn stat(pid: i32) -> Option<Process> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end_of_name = text.iter().rposition(|&byte| byte == b')')?;
    let fields: Vec<&str> = str::from_utf8(&text[end_of_name + 1..]).ok()?.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
    Some(Process {
        pid,
        ended: matches!(*fields.first()?, "Z" | "X"),
        parent: number(1)? as i32,
        group: number(2)? as i32,
        session: number(3)? as i32,
        ticks: (number(11)? + number(12)?).cast_unsigned(),
        started: number(19)?.cast_unsigned(),
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn stat_of_this_process_names_its_parent_and_group() {
        let own = stat(std::process::id().cast_signed()).expect("own stat");
        // SAFETY: neither call takes an argument that is dereferenced.
        let (parent, group) = unsafe { (libc::getppid(), libc::getpgrp()) };
        assert_eq!((own.parent, own.group, own.ended), (parent, group, false));
    }

    #[test]
    fn cpu_seconds_of_an_unknown_process_is_none() {
        assert_eq!(cpu_seconds(i32::MAX), None);
    }
}
