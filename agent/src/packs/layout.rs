//! Which rows are in which process.

use crate::rows::pack::Pack;
use crate::shard::Shard;

impl Shard {
    /// How many rows share a process, if several do. A shorter last process is no exception: any row must fit any other.
    pub(crate) fn rows_sharing(&self) -> Option<u32> {
        self.settings.rows_per_process.filter(|rows| *rows > 1)
    }

    /// Divides the rows over processes of `rows_per_process`, of which none has started; the last one takes the
    /// remainder.
    pub(crate) fn lay_out(&mut self, rows_per_process: u32) {
        let (first, count, size) = (self.settings.first, self.settings.count, rows_per_process.max(1));
        // The first one may have been the probe, whose events are still to be told apart.
        let epoch = self.packs.first().map_or(0, |probe| probe.epoch);
        self.isolation.share(size);
        self.packs = (0..count.div_ceil(size))
            .map(|number| {
                let start = number * size;
                let end = start.saturating_add(size).min(count);
                let identity = self.isolation.identity(first + start, number, end - start);
                Pack { epoch, ..Pack::new(start as usize..end as usize, identity) }
            })
            .collect();
        for (number, pack) in self.packs.iter().enumerate() {
            for row in &mut self.rows[pack.rows.clone()] {
                row.pack = number;
            }
        }
    }
}
