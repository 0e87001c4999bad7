//! What became of rows, as the columns of a reply say it.

use super::columns::{Columns, join};
use crate::channel::request::Encoding;
use crate::values::numbers::{write_f64, write_u64};

/// Outcomes by slot.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Empty, like the flags, where rows have no rewards.
    pub(crate) rewards: Vec<f64>,
    pub(crate) terminated: Vec<u8>,
    pub(crate) truncated: Vec<u8>,
    /// Slots of rows that failed.
    pub(crate) failed: Vec<bool>,
    pub(crate) failures: usize,
    /// Global rows.
    pub(crate) stragglers: Vec<u32>,
    pub(crate) slowest_us: u64,
    pub(crate) slowest_row: u32,
}

impl Outcomes {
    /// Nothing yet of `count` rows; `rewards`: they have rewards and flags.
    pub(crate) fn new(count: usize, rewards: bool) -> Self {
        let flags = if rewards { count } else { 0 };
        Self {
            rewards: vec![0.0; flags],
            terminated: vec![0; flags],
            truncated: vec![0; flags],
            failed: vec![false; count],
            ..Self::default()
        }
    }

    /// Takes in how long a row took.
    #[inline]
    pub(crate) fn note_time(&mut self, index: u32, took_us: u64) {
        if took_us >= self.slowest_us {
            self.slowest_us = took_us;
            self.slowest_row = index;
        }
    }

    /// Adds the columns of rewards and flags.
    pub(crate) fn add_flags(&self, columns: &mut Columns, encoding: Encoding) {
        if encoding == Encoding::Binary {
            columns.add("rewards", false, |out| {
                out.reserve(8 * self.rewards.len());
                self.rewards.iter().for_each(|reward| out.extend_from_slice(&reward.to_le_bytes()));
            });
            columns.add("terminated", false, |out| out.extend_from_slice(&self.terminated));
            columns.add("truncated", false, |out| out.extend_from_slice(&self.truncated));
            return;
        }
        columns.add("rewards", false, |out| join(out, &self.rewards, |out, reward| write_f64(out, *reward)));
        columns.add("terminated", false, |out| join(out, &self.terminated, write_truth));
        columns.add("truncated", false, |out| join(out, &self.truncated, write_truth));
    }

    /// Writes the members `failed` and `stragglers`; `indices` are the global rows by slot.
    pub(crate) fn write_failures(&self, head: &mut Vec<u8>, indices: impl Iterator<Item = u32>) {
        head.extend_from_slice(b"\"failed\":[");
        if self.failures > 0 {
            let failed = indices.zip(&self.failed).filter(|(_, failed)| **failed);
            join(head, failed, |out, (index, _)| write_u64(out, u64::from(index)));
        }
        head.extend_from_slice(b"],\"stragglers\":[");
        join(head, &self.stragglers, |out, index| write_u64(out, u64::from(*index)));
        head.push(b']');
    }

    /// Writes the members `slowest_us` and `slowest_row`.
    pub(crate) fn write_slowest(&self, head: &mut Vec<u8>) {
        head.extend_from_slice(b"\"slowest_us\":");
        write_u64(head, self.slowest_us);
        head.extend_from_slice(b",\"slowest_row\":");
        write_u64(head, u64::from(self.slowest_row));
    }
}

fn write_truth(out: &mut Vec<u8>, flag: &u8) {
    out.extend_from_slice(if *flag == 0 { b"false" } else { b"true" });
}
