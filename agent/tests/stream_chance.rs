//! Whatever is sent in whatever order, every row that went out comes back exactly once.

mod harness;

use harness::puppets;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A small generator, so that a failure is the same one every time as far as processes allow.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn action(&mut self) -> Value {
        let error = r#"{"id":$ID,"error":{"kind":"exception","type":"ValueError","message":"bad","traceback":"tb"}}"#;
        match self.below(12) {
            0 => json!([["exit", 3]]),
            1 => json!([["write", error]]),
            2 => json!([["write", "no JSON"]]),
            3 => json!([["sleep", 0.03], ["write", r#"{"id":$ID,"obs":2,"reward":2,"terminated":true}"#]]),
            4 => json!(9),
            other => json!(other),
        }
    }
}

#[test]
fn every_row_that_went_out_comes_back_exactly_once() {
    const ROWS: u64 = 6;
    for (mode, in_flight) in
        [(Value::Null, json!(2)), (json!("same_step"), json!(1)), (json!("next_step"), Value::Null)]
    {
        let (mut agent, _) = puppets(json!({}), ROWS as u32, json!({"autoreset": mode, "in_flight": in_flight}));
        let mut chance = Chance(ROWS);
        // What is out, by row.
        let mut out: BTreeMap<u64, &str> = BTreeMap::new();
        for _ in 0..150 {
            let rows: Vec<u64> =
                (0..ROWS).filter(|row| !out.contains_key(row)).filter(|_| chance.below(2) == 0).collect();
            let encoding = if chance.below(3) == 0 { "binary" } else { "json" };
            let kind = if chance.below(3) == 0 { "reset" } else { "step" };
            let actions: Vec<Value> = rows.iter().map(|_| chance.action()).collect();
            let head = json!({"kind": kind, "rows": rows, "encoding": encoding, "actions": {"kind": "json"},
                "seeds": null, "hard": chance.below(8) == 0, "total": rows.len()});
            agent.send_off(head, json!({"actions": actions, "options": null}).to_string().as_bytes());
            out.extend(rows.iter().map(|row| (*row, kind)));
            let wanted = chance.below(ROWS) as usize;
            while out.len() > wanted {
                take(&mut out, &agent.results().batch.head);
            }
        }
        while !out.is_empty() {
            take(&mut out, &agent.results().batch.head);
        }
        let batch = agent.reset(json!({"hard": true}));
        assert_eq!((&batch.head["failed"], &batch.head["late_replies"]), (&json!([]), &json!(0)));
        assert_eq!(agent.results.len(), 0, "nothing comes twice");
    }
}

/// Takes the rows of an event in, each of which has to be out with this kind.
fn take(out: &mut BTreeMap<u64, &str>, head: &Value) {
    let (rows, ops) = (head["rows"].as_array().expect("rows"), head["ops"].as_array().expect("ops"));
    assert_eq!(rows.len(), ops.len());
    for (row, op) in rows.iter().zip(ops) {
        let was = row.as_u64().and_then(|row| out.remove(&row));
        assert_eq!(was, op.as_str(), "row {row} came back: {head}");
    }
}
