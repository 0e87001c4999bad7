//! What `/proc` says about the machine's processes.

use std::collections::HashMap;
use std::fs;

/// One process.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Ended, and not collected by its parent yet.
    pub ended: bool,
    /// Resident pages.
    pub resident_pages: u64,
}

/// Every process that can be seen.
pub fn all() -> Vec<Process> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(look).collect()
}

/// What descends from `root`, without it and without what has ended, nearest first.
pub fn descendants(all: &[Process], root: i32) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            open.push(process.pid);
            if !process.ended {
                found.push(*process);
            }
        }
    }
    found
}

/// The words of its command line, joined by spaces and cut at 256 bytes; its name where it has none.
pub fn command(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = if line.is_empty() { fs::read(format!("/proc/{pid}/comm")).unwrap_or_default() } else { line };
    let words: Vec<u8> = line.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).take(256).collect();
    String::from_utf8_lossy(&words).trim_end().to_owned()
}

/// The name in parentheses may hold spaces and parentheses itself: fields count from the last one.
pub fn look(pid: i32) -> Option<Process> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end_of_name = text.iter().rposition(|&byte| byte == b')')?;
    let fields: Vec<&str> = str::from_utf8(&text[end_of_name + 1..]).ok()?.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
    Some(Process {
        pid,
        parent: number(1)? as i32,
        group: number(2)? as i32,
        ended: matches!(*fields.first()?, "Z" | "X"),
        resident_pages: number(21).unwrap_or(0).max(0).cast_unsigned(),
    })
}
