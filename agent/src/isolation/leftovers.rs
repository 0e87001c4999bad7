//! One look for what is left of any row, instead of one for each.

use std::collections::HashSet;
use std::fs;

use super::{Isolation, processes};

impl Isolation {
    /// Whether a row may have a process left. Unisolated: one walk through `/proc`, which may say yes for a process
    /// that has only taken over a pid. Isolated it always says yes, for `kill_everything` is as cheap there.
    pub fn may_have_processes(&self) -> bool {
        if self.settings.isolated || cfg!(not(target_os = "linux")) {
            return true;
        }
        let leaders: HashSet<i32> = self.leaders.borrow().values().map(|leader| leader.pid).collect();
        let homes = self.settings.workspaces.as_ref().map(|folder| format!("HOME={}/", folder.display()));
        processes::all().iter().filter(|process| !process.ended).any(|process| {
            let ids = [process.pid, process.group, process.session];
            ids.iter().any(|id| leaders.contains(id))
                || homes.as_ref().is_some_and(|homes| has_variable(process.pid, homes))
        })
    }
}

fn has_variable(pid: i32, beginning: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|pair| pair.starts_with(beginning.as_bytes())))
}
