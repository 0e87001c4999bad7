//! Looks at what the rows use, where no kernel ends them at their limit (`start` with `own_groups`).

use super::Shard;
use crate::rows::row::NEVER;
use std::collections::HashMap;

/// A process writes about a gigabyte a second at most: between two looks it uses a tenth of one, which the sandbox's limit has room for.
const LEAST_PAUSE_US: u64 = 50_000;
const MOST_PAUSE_US: u64 = 400_000;
/// One may grow while another shrinks, so that the sum tells nothing.
const BETWEEN_SWEEPS_US: u64 = 1_000_000;

/// When to look again.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    due_us: u64,
    pause_us: u64,
    total_before: u64,
    swept_us: u64,
    /// The sum at which no row can have passed its limit since the last look at all of them.
    safe_total: u64,
    /// Processes above their limit at the last look, and by what they used then. The memory of a process that was killed goes
    /// only little by little, and its replacement shares its group: only what does not fall is the new one's.
    above: HashMap<usize, u64>,
}

impl MemoryWatch {
    pub(crate) fn new(is_needed: bool) -> Self {
        let due_us = if is_needed { 0 } else { NEVER };
        Self { due_us, pause_us: LEAST_PAUSE_US, total_before: 0, swept_us: 0, safe_total: 0, above: HashMap::new() }
    }

    pub(crate) fn due_us(&self) -> u64 {
        self.due_us
    }
}

impl Shard {
    /// Looks if it is time to. Most looks read one figure.
    pub(crate) fn watch_memory(&mut self, now_us: u64) {
        if now_us >= self.watch.due_us {
            let total = self.isolation.memory_in_use();
            let watch = &mut self.watch;
            let grows = total > watch.total_before + watch.total_before / 64 || !watch.above.is_empty();
            watch.pause_us = if grows { LEAST_PAUSE_US } else { (2 * watch.pause_us).min(MOST_PAUSE_US) };
            watch.total_before = total;
            watch.due_us = now_us + watch.pause_us;
            let is_long_ago = now_us >= watch.swept_us + BETWEEN_SWEEPS_US;
            // Below it neither a row nor the sandbox can have passed its limit.
            let least_limit = self.settings.memory_bytes.min(self.settings.shard_memory_bytes.unwrap_or(u64::MAX));
            if total >= least_limit && (is_long_ago || total >= watch.safe_total || !watch.above.is_empty()) {
                self.sweep(total, now_us);
            }
        }
        self.note_deadline(self.watch.due_us);
    }

    fn sweep(&mut self, total: u64, now_us: u64) {
        let mut headroom = u64::MAX;
        let before = std::mem::take(&mut self.watch.above);
        let mut largest: Option<(usize, u64)> = None;
        for number in 0..self.packs.len() {
            let pack = &self.packs[number];
            if pack.process.is_none() {
                continue;
            }
            let used = self.isolation.memory_of(&pack.identity);
            let limit = self.isolation.together(self.settings.memory_bytes, pack.rows.len() as u32);
            if used > limit {
                if before.get(&number).is_some_and(|&before| used >= before) {
                    let why = format!("the agent ended it at its limit of {limit} bytes; it used {used}");
                    let _ = self.isolation.end_for_memory(&pack.identity, why);
                } else {
                    self.watch.above.insert(number, used);
                }
                continue;
            }
            headroom = headroom.min(limit - used);
            if largest.is_none_or(|(_, most)| used > most) {
                largest = Some((number, used));
            }
        }
        self.watch.swept_us = now_us;
        let sandbox_headroom = self.settings.shard_memory_bytes.map_or(u64::MAX, |limit| limit.saturating_sub(total));
        self.watch.safe_total = total.saturating_add(headroom.min(sandbox_headroom) / 2);
        if let (Some(limit), Some((number, used))) = (self.settings.shard_memory_bytes, largest) {
            self.relieve(total, limit, number, used);
        }
    }

    /// The sandbox is full: it costs the largest row, if that has more than its share, and not all of them.
    fn relieve(&mut self, total: u64, limit: u64, number: usize, used: u64) {
        let share = limit / (self.packs.len() as u64 + 1);
        if total > limit && used > share {
            let why = format!(
                "the agent ended it, the largest with {used} bytes: the sandbox used {total} of its limit of {limit}"
            );
            let _ = self.isolation.end_for_memory(&self.packs[number].identity, why);
        }
    }
}
