//! Steps of the rows of a process, counted without touching each of them.

use crate::shard::Shard;

impl Shard {
    /// What the steps of a row are counted from: those of all rows of its process together.
    pub(crate) fn steps_together(&self, local: usize) -> u64 {
        self.packs[self.rows[local].pack].packed.as_ref().map_or(0, |packed| packed.stepped)
    }

    /// Steps of a row since its last reset.
    pub(crate) fn steps_of(&self, local: usize) -> u64 {
        self.rows[local].steps.wrapping_add(self.steps_together(local))
    }

    /// These rows of a process were stepped.
    pub(crate) fn count_steps(&mut self, number: usize, rows: &[usize]) {
        let pack = &mut self.packs[number];
        match &mut pack.packed {
            Some(packed) if rows.len() == pack.rows.len() => packed.stepped += 1,
            _ => rows.iter().for_each(|local| self.rows[*local].steps = self.rows[*local].steps.wrapping_add(1)),
        }
    }
}
