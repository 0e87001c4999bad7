//! What the rows are doing, and what memory they hold.

use super::Shard;
use crate::channel::error::RequestError;
use crate::event_loop::{Source, Token};
use crate::isolation::{MemorySample, MemorySampler};
use crate::rows::pack::{Life, Pack};
use crate::rows::row::Row;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Status requests that wait for a memory sample.
pub(crate) struct PendingStatus {
    sampler: MemorySampler,
    sequences: Vec<u32>,
}

impl Shard {
    /// Answers a status request, now or when its memory sample is there.
    pub(crate) fn tell_status(&mut self, sequence: u32, memory: bool) -> Result<(), RequestError> {
        if !memory {
            self.send_status(sequence, None);
            return Ok(());
        }
        if let Some(pending) = &mut self.status {
            pending.sequences.push(sequence);
            return Ok(());
        }
        let rows: Vec<_> = self
            .packs
            .iter()
            .filter_map(|pack| Some((pack.identity.uid, pack.process.as_ref()?.pid?, pack.identity.clone())))
            .chain(self.state_processes())
            .collect();
        let template = self.template.process.as_ref().and_then(|process| process.pid);
        let failed = |error: std::io::Error| RequestError::new("internal", format!("memory sample: {error}"));
        let sampler = MemorySampler::start(&self.isolation, &rows, template).map_err(failed)?;
        self.poller.add_level(sampler.fd(), Token::of(Source::Sampler)).map_err(failed)?;
        self.status = Some(PendingStatus { sampler, sequences: vec![sequence] });
        Ok(())
    }

    /// The sampler has written something.
    pub(crate) fn read_sample(&mut self) {
        let Some(pending) = &mut self.status else {
            return;
        };
        let Some(sample) = pending.sampler.read() else {
            return;
        };
        self.poller.remove(pending.sampler.fd());
        let sequences = std::mem::take(&mut pending.sequences);
        self.status = None;
        for sequence in sequences {
            self.send_status(sequence, Some(&sample));
        }
    }

    fn send_status(&mut self, sequence: u32, sample: Option<&MemorySample>) {
        let pss: HashMap<u32, u64> = sample.iter().flat_map(|sample| sample.rows.iter().copied()).collect();
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let pack = &self.packs[row.pack];
                // A process belongs to its rows in equal shares.
                let share = pss.get(&pack.identity.uid).map(|bytes| bytes / pack.rows.len() as u64);
                row_status(row, pack, share)
            })
            .collect();
        let mut head = json!({
            "ok": true,
            "rows": rows,
            "states": self.states_status(&pss),
            "counters": {
                "late_replies": self.counters.late_replies,
                "replacements": self.counters.replacements,
                "stragglers": self.counters.stragglers,
            },
        });
        if let Some(sample) = sample {
            head["template_pss_bytes"] = json!(sample.template);
            head["agent_pss_bytes"] = json!(sample.agent);
            head["memory_method"] = json!(self.isolation.memory_method());
        }
        self.worker.reply(sequence, head.to_string().as_bytes(), []);
    }
}

fn row_status(row: &Row, pack: &Pack, pss_bytes: Option<u64>) -> Value {
    let state = match (&row.error, pack.life) {
        (_, Life::Lost) => "lost",
        (Some(_), _) => "failed",
        (None, Life::Ready | Life::Branching) => "ready",
        (None, _) => "starting",
    };
    json!({
        "row": row.index,
        "pid": pack.process.as_ref().and_then(|process| process.pid),
        "epoch": pack.epoch,
        "episode": row.episode,
        "state": state,
        "error": row.error.as_ref().map(|error| error.to_json(false)),
        "replacements": pack.replacements,
        "pss_bytes": pss_bytes,
    })
}
