//! What a shard itself knows of a row's episode, copied with it.

use crate::rows::row::{Task, Value};
use crate::shard::Shard;
use std::rc::Rc;

/// A row at one instant.
pub(super) struct Snapshot {
    /// Global index.
    pub(super) row: u32,
    /// Number of its episode since the pool's seed was set; the first is 0.
    pub(super) episode: u64,
    /// Steps since its reset.
    pub(super) steps: u64,
    /// The seed that its reset was given.
    pub(super) seed: Option<u64>,
    /// True at the end of an episode that was not reset since.
    pub(super) ended: bool,
    observed: bool,
    observation: Value,
    /// Its part of each column of an array pool.
    columns: Vec<Vec<u8>>,
    reset_info: Value,
}

impl Shard {
    /// The row as it is.
    pub(super) fn snapshot(&self, local: usize) -> Rc<Snapshot> {
        let row = &self.rows[local];
        let count = self.rows.len();
        let part = |column: &Rc<Vec<u8>>| {
            let row_bytes = column.len() / count;
            column[local * row_bytes..(local + 1) * row_bytes].to_vec()
        };
        Rc::new(Snapshot {
            row: row.index,
            episode: row.episode.saturating_sub(1),
            steps: self.steps_of(local),
            seed: row.seed,
            ended: row.ended,
            observed: row.observed,
            observation: row.observation.clone(),
            columns: self.columns.iter().map(part).collect(),
            reset_info: row.reset_info.clone(),
        })
    }

    /// The row's process has become a copy: what is known of the source holds for it now.
    pub(super) fn apply_snapshot(&mut self, local: usize, snapshot: &Snapshot, reseeded: bool) {
        let stepped = self.steps_together(local);
        let count = self.rows.len();
        for (column, part) in self.columns.iter_mut().zip(&snapshot.columns) {
            let row_bytes = column.len() / count;
            // Shared only while a reply with it is still being written; then the copy is what keeps that reply whole.
            Rc::make_mut(column)[local * row_bytes..(local + 1) * row_bytes].copy_from_slice(part);
        }
        let row = &mut self.rows[local];
        row.observation.clone_from(&snapshot.observation);
        row.observed = snapshot.observed;
        row.reset_info.clone_from(&snapshot.reset_info);
        row.info.clone_from(&snapshot.reset_info);
        row.steps = snapshot.steps.wrapping_sub(stepped);
        row.seed = snapshot.seed;
        row.ended = snapshot.ended;
        row.reseeds += u64::from(reseeded);
        row.fresh = false;
        row.error = None;
        row.error_shown = false;
        row.task = Task::Restore;
    }
}
