//! What runs beside the first process of a row.

use std::collections::{HashMap, HashSet};
use std::fs;

use super::{Identity, Isolation, processes};

impl Isolation {
    /// For each row, given by its identity and first process, the names of its other processes: by its memory group,
    /// else by one walk through `/proc` for all.
    pub fn companions(&self, rows: &[(&Identity, i32)]) -> Vec<Vec<String>> {
        let mut walked: Option<HashMap<u32, Vec<i32>>> = None;
        let each = rows.iter().map(|(id, first)| {
            let pids = match self.group_members(id) {
                Some(pids) => pids,
                None => walked.get_or_insert_with(|| self.members_by_uid(rows)).remove(&id.uid).unwrap_or_default(),
            };
            pids.into_iter().filter(|pid| pid != first).map(name_of).collect()
        });
        each.collect()
    }

    /// Processes of the row in its memory group; of what was ended there before only remains are left, of another uid.
    fn group_members(&self, id: &Identity) -> Option<Vec<i32>> {
        let text = fs::read_to_string(id.memory.as_ref()?.join("cgroup.procs")).ok()?;
        let pids: Vec<i32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
        Some(pids.into_iter().filter(|pid| processes::is_alive_with(*pid, id.uid)).collect())
    }

    fn members_by_uid(&self, rows: &[(&Identity, i32)]) -> HashMap<u32, Vec<i32>> {
        if self.settings.isolated {
            let wanted: HashSet<u32> = rows.iter().map(|(id, _)| id.uid).collect();
            let mut by_uid: HashMap<u32, Vec<i32>> = HashMap::new();
            for pid in processes::pids() {
                if let Some(uid) = processes::real_uid(pid).filter(|uid| wanted.contains(uid))
                    && processes::is_alive_with(pid, uid)
                {
                    by_uid.entry(uid).or_default().push(pid);
                }
            }
            return by_uid;
        }
        let members = rows.iter().map(|(id, _)| {
            let home = id.workspace.join("workspace");
            (id.uid, processes::alive_of_row(self.leader(id.uid), &home.to_string_lossy()))
        });
        members.collect()
    }
}

fn name_of(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
}
