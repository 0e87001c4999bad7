//! Memory that the agent watches, where it makes the groups itself: their kernel counts and does not bound.

use std::io;
use std::path::Path;

use super::{Identity, Isolation};

/// How often a group was ended, and why the last time.
#[derive(Debug, Default)]
pub(super) struct MemoryEnd {
    count: u64,
    why: String,
}

impl Isolation {
    /// Whether the agent has to watch the memory of its rows.
    pub fn watches_memory(&self) -> bool {
        self.settings.own_groups
    }

    /// What the whole sandbox uses: programs, their files, the agent.
    pub fn memory_in_use(&self) -> u64 {
        self.settings.memory_dir.as_deref().map_or(0, usage_bytes)
    }

    /// What the identity's processes and files use.
    pub fn memory_of(&self, id: &Identity) -> u64 {
        id.memory.as_deref().map_or(0, usage_bytes)
    }

    /// Ends everything of a row for what it uses; `why` is part of a sentence. Its exit is told as any other.
    pub fn end_for_memory(&self, id: &Identity, why: String) -> io::Result<()> {
        if let Some(group) = &id.memory {
            let mut ends = self.memory_ends.borrow_mut();
            let end = ends.entry(group.clone()).or_default();
            (end.count, end.why) = (end.count + 1, why);
        }
        self.signal_everything(id)
    }

    /// Why the row was ended the last time, where it was not the kernel.
    pub fn memory_end(&self, id: &Identity) -> Option<String> {
        let ends = self.memory_ends.borrow();
        id.memory.as_ref().and_then(|group| Some(ends.get(group)?.why.clone()))
    }

    pub(super) fn memory_ends(&self, group: &Path) -> u64 {
        self.memory_ends.borrow().get(group).map_or(0, |end| end.count)
    }
}

#[cfg(target_os = "linux")]
fn usage_bytes(group: &Path) -> u64 {
    super::own_groups::usage_bytes(group)
}

#[cfg(not(target_os = "linux"))]
fn usage_bytes(_: &Path) -> u64 {
    0
}
