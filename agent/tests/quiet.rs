//! A step of all rows, whose processes may be left alone row by row, does what a step of each process alone does.

mod harness;

use harness::{Agent, Batch, batch_with, crews};
use serde_json::{Value, json};

const ROWS: u64 = 6;
const SIZE: u64 = 2;

/// The same pool twice: one is asked for all rows at once, the other for those of one process after another.
struct Pair {
    together: Agent,
    apart: Agent,
}

impl Pair {
    fn new(autoreset: Value, vectorised: bool) -> Self {
        let mut settings = json!({"raw": true});
        if vectorised {
            settings["vector"] = json!({"class": "CrewVector", "autoreset": autoreset, "partial_reset": true});
        }
        let start = || crews(settings.clone(), ROWS as u32, SIZE as u32, json!({"autoreset": autoreset})).0;
        Self { together: start(), apart: start() }
    }

    /// Both do it, and everything of it is the same. Gives the outcome of the rows.
    fn same(&mut self, op: &str, actions: &[Value]) -> Value {
        let body = |actions: &[Value]| json!({"actions": actions}).to_string().replace("1e308", "1e999");
        let whole = batch_with(&mut self.together, op, json!({}), body(actions).as_bytes());
        let mut parts = Vec::new();
        for first in (0..ROWS).step_by(SIZE as usize) {
            let rows: Vec<u64> = (first..first + SIZE).collect();
            let part = &actions[first as usize..(first + SIZE) as usize];
            let batch = batch_with(&mut self.apart, op, json!({"rows": rows}), body(part).as_bytes());
            parts.extend(outcomes(&batch, SIZE as usize));
        }
        let whole = outcomes(&whole, ROWS as usize);
        assert_eq!(whole, parts, "{op} {actions:?}");
        let episodes = |agent: &mut Agent| {
            agent.status()["rows"]
                .as_array()
                .expect("rows")
                .iter()
                .map(|row| row["episode"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(episodes(&mut self.together), episodes(&mut self.apart), "{op} {actions:?}");
        json!(whole)
    }
}

fn outcomes(batch: &Batch, count: usize) -> Vec<Value> {
    let names: Vec<&str> = batch.head["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .filter_map(|column| column["name"].as_str())
        .collect();
    let columns: Vec<Value> = names.iter().map(|name| batch.column(name)).collect();
    (0..count).map(|slot| columns.iter().map(|column| column[slot].clone()).collect()).collect()
}

fn numbers(values: [u64; ROWS as usize]) -> Vec<Value> {
    values.map(|value| json!(value)).to_vec()
}

/// Batches in an order that chance chooses, most of them plain steps.
fn go(autoreset: Value, vectorised: bool, seed: u64) {
    let mut state = seed;
    let mut chance = move |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut pair = Pair::new(autoreset, vectorised);
    for _ in 0..60 {
        let mut actions: Vec<Value> =
            (0..ROWS).map(|_| json!([1, 2, 3, 4, 5, 6, 7, 8, 9][chance(9) as usize])).collect();
        if chance(2) == 0 {
            actions.fill(json!(3));
        }
        let row = chance(ROWS) as usize;
        match chance(12) {
            0 => actions[row] = json!({"info": {"lives": 3}}),
            1 => actions[row] = json!({"number": 4, "reward": 1e308}),
            2 => actions[row] = json!({"fail": "exception"}),
            3 => actions[row] = json!({"play": [["exit", 3]]}),
            4 => {
                pair.same("reset", &actions);
                continue;
            }
            _ => {}
        }
        let ends = pair.same("step", &actions).to_string().contains("\"crash\"");
        if ends {
            pair.same("reset", &actions);
        }
    }
}

#[test]
fn chance_finds_no_difference_for_vectorised_environments() {
    for (seed, autoreset) in [(1, json!("same_step")), (2, json!("next_step")), (3, Value::Null)] {
        go(autoreset, true, seed);
    }
}

#[test]
fn chance_finds_no_difference_for_packed_environments() {
    for (seed, autoreset) in [(4, json!("same_step")), (5, json!("next_step")), (6, Value::Null)] {
        go(autoreset, false, seed);
    }
}

#[test]
fn an_info_of_a_row_is_told_once() {
    let mut pair = Pair::new(json!("same_step"), true);
    for _ in 0..3 {
        pair.same("step", &numbers([1; 6]));
    }
    let mut actions = numbers([1; 6]);
    actions[2] = json!({"info": {"lives": 3}});
    assert_eq!(pair.same("step", &actions)[2][4], json!({"lives": 3}));
    for _ in 0..3 {
        assert_eq!(pair.same("step", &numbers([1; 6]))[2][4], json!({}));
    }
}

#[test]
fn binary_replies_tell_infos_between_steps_without_any() {
    let settings = json!({"raw": true, "vector": {"class": "CrewVector", "autoreset": "same_step"}});
    let (mut agent, _) = crews(settings, 4, 2, json!({"autoreset": "same_step"}));
    let mut infos = |actions: Value| agent.step(actions, json!({"encoding": "binary"})).text("infos");
    for _ in 0..3 {
        assert_eq!(infos(json!([1, 1, 1, 1])), "");
        assert_eq!(infos(json!([1, 1, {"info": {"lives": 3}}, 1])), r#""2":{"lives": 3}"#);
        assert_eq!(infos(json!([1, 1, 1, 1])), "");
    }
}

#[test]
fn a_process_that_dies_in_a_step_it_was_left_alone_in_fails_all_its_rows() {
    for (script, kind) in
        [(json!([["exit", 3]]), "crash"), (json!([["sleep", 60]]), "timeout"), (json!([["write", "{]\n"]]), "protocol")]
    {
        let settings = json!({"raw": true, "vector": {"class": "CrewVector", "autoreset": "same_step"}});
        let (mut agent, _) = crews(settings, 4, 2, json!({"autoreset": "same_step", "deadlines_ms": {"step": 400}}));
        for _ in 0..3 {
            assert_eq!(agent.step(json!([1, 2, 3, 4]), json!({})).head["failed"], json!([]));
        }
        let batch = agent.step(json!([1, 2, {"play": script}, 4]), json!({}));
        assert_eq!(batch.head["failed"], json!([2, 3]));
        assert_eq!(batch.column("rewards"), json!([1.0, 2.0, 0.0, 0.0]));
        for slot in [2, 3] {
            assert_eq!((&batch.error(slot)["kind"], &batch.error(slot)["op"]), (&json!(kind), &json!("step")));
        }
        assert_eq!(agent.reset(json!({"rows": [2, 3]})).head["failed"], json!([]));
        assert_eq!(agent.step(json!([1, 2, 3, 4]), json!({})).column("rewards"), json!([1.0, 2.0, 3.0, 4.0]));
    }
}

#[test]
fn rows_that_were_out_on_the_stream_are_found_as_the_stream_left_them() {
    let settings = json!({"raw": true, "vector": {"class": "CrewVector", "autoreset": "same_step"}});
    let (mut agent, _) = crews(settings, 4, 2, json!({"autoreset": "same_step"}));
    for round in 0..3 {
        for _ in 0..2 {
            assert_eq!(agent.step(json!([1, 2, 3, 4]), json!({})).column("infos"), json!([{}, {}, {}, {}]));
        }
        agent.send_step(json!([2, 3]), json!([{"info": {"round": round}}, 6]));
        let told = agent.receive(2);
        assert_eq!(told[0].info, json!({"round": round}));
    }
}
