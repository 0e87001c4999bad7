//! Messages and results of the stream.

use super::{Agent, Batch, Frame, merged};
use serde_json::{Value, json};

impl Agent {
    /// Sends rows a step on the stream, with JSON.
    pub fn send_step(&mut self, rows: Value, actions: Value) {
        let body = json!({"actions": actions}).to_string();
        self.send_off(json!({"kind": "step", "rows": rows, "actions": {"kind": "json"}}), body.as_bytes());
    }

    /// Sends rows a reset on the stream; `changes` go into the head.
    pub fn send_reset(&mut self, rows: Value, changes: Value) {
        let head = json!({"kind": "reset", "rows": rows, "seeds": null, "hard": false});
        self.send_off(merged(head, &changes), b"{}");
    }

    /// Sends rows off; the message has to be accepted.
    pub fn send_off(&mut self, changes: Value, body: &[u8]) {
        let reply = self.request(&send_head(&changes), body);
        assert_eq!(reply.head, json!({"ok": true}));
    }

    /// The next results event.
    pub fn results(&mut self) -> Results {
        loop {
            if let Some(results) = self.results.pop_front() {
                return results;
            }
            let frame = self.frame().expect("a frame");
            let other = self.set_event_aside(frame);
            assert!(other.is_none(), "expected an event: {}", other.map(|frame| frame.head).unwrap_or_default());
        }
    }

    /// The results of so many rows, one for each, in the order in which they came.
    pub fn receive(&mut self, count: usize) -> Vec<RowResult> {
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(self.results().each());
        }
        assert_eq!(all.len(), count, "more results than rows were sent");
        all
    }
}

/// The head of a message of the stream.
pub fn send_head(changes: &Value) -> Value {
    merged(json!({"op": "send", "encoding": "json", "offset": 0, "total": 0}), changes)
}

/// What a results event says.
pub struct Results {
    pub batch: Batch,
}

/// One row of a JSON results event.
#[derive(Debug, Clone, PartialEq)]
pub struct RowResult {
    pub row: u64,
    pub op: String,
    pub obs: Value,
    pub reward: f64,
    pub terminated: bool,
    pub truncated: bool,
    pub info: Value,
    pub failed: bool,
}

impl Results {
    /// The results of an event.
    pub fn of(frame: Frame) -> Self {
        assert_eq!(frame.sequence, 0, "an event's sequence");
        Self { batch: Batch { head: frame.head, body: frame.body } }
    }

    /// Its rows, one by one.
    pub fn each(&self) -> Vec<RowResult> {
        let head = &self.batch.head;
        let names = ["obs", "rewards", "terminated", "truncated", "infos"];
        let [obs, rewards, terminated, truncated, infos] = names.map(|name| self.batch.column(name));
        let rows = head["rows"].as_array().expect("rows");
        assert!(rows.windows(2).all(|pair| pair[0].as_u64() < pair[1].as_u64()), "ascending rows: {head}");
        let failed = head["failed"].as_array().expect("failed");
        let each = rows.iter().enumerate().map(|(place, row)| RowResult {
            row: row.as_u64().expect("a row"),
            op: head["ops"][place].as_str().expect("an op").to_owned(),
            obs: obs[place].clone(),
            reward: number(&rewards[place]),
            terminated: terminated[place].as_bool().expect("a flag"),
            truncated: truncated[place].as_bool().expect("a flag"),
            info: infos[place].clone(),
            failed: failed.contains(row),
        });
        each.collect()
    }
}

impl RowResult {
    /// Its error.
    pub fn error(&self) -> &Value {
        &self.info["sandpool_error"]
    }
}

/// A number of a JSON column; infinity is the only tagged one that tests use.
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| {
        assert_eq!(value, &json!({"$float": "inf"}));
        f64::INFINITY
    })
}
