//! Several rows in one process give what one process each gives.

mod harness;

use harness::{Agent, Batch, batch_with, crews};
use serde_json::{Value, json};

/// Forms in which a process says its columns.
fn forms() -> Vec<Value> {
    vec![
        json!({"form": "array"}),
        json!({"form": "array", "raw": true}),
        json!({"form": "array", "lists": true}),
        json!({"form": "dict", "raw": true}),
        json!({"form": "dict"}),
        json!({"form": "plain"}),
        json!({"form": "list", "lists": true}),
        json!({"form": "list"}),
    ]
}

/// Everything that a run of seven rows says, as text.
fn run(settings: &Value, rows_per_process: u32, mode: Value) -> Vec<String> {
    let (mut agent, started) = crews(settings.clone(), 7, rows_per_process, json!({"autoreset": mode}));
    let mut said = vec![started["layout"].to_string()];
    let observed = Batch::of(agent.request(&json!({"op": "observe", "encoding": "json"}), b""));
    note(&mut said, &observed, &["obs", "infos"]);
    let steps = ["obs", "rewards", "terminated", "truncated", "infos"];
    for actions in [
        json!([1, 2, 3, 4, 5, 6, 7]),
        json!([9, 1, 8, 1, 9, 1, 9]),
        json!([2, {"info": {"a": {"b": [1.5, "x"]}}}, 2, 9, 2, {"reward": 0.5, "number": 9}, 2]),
        json!([9, 9, 9, 9, 9, 9, 9]),
        json!([3, 3, 3, 3, 3, 3, 3]),
    ] {
        note(&mut said, &agent.step(actions, json!({})), &steps);
    }
    note(&mut said, &agent.step(json!([6, 7, 8]), json!({"rows": [1, 4, 6]})), &steps);
    note(&mut said, &agent.reset(json!({"rows": [0, 1, 5], "seeds": [7, null, 9]})), &["obs", "infos"]);
    note(&mut said, &agent.reset(json!({})), &["obs", "infos"]);
    said.push(episodes(&mut agent).to_string());
    said
}

/// What the columns say, but for the number of rows of a message.
fn note(said: &mut Vec<String>, batch: &Batch, columns: &[&str]) {
    assert_eq!(batch.head["failed"].as_array().map_or(0, Vec::len), 0, "{}", batch.text("infos"));
    for name in columns {
        let mut column = batch.column(name);
        for item in column.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            item.remove("message");
        }
        said.push(column.to_string());
    }
}

fn episodes(agent: &mut Agent) -> Value {
    agent.status()["rows"].as_array().expect("rows").iter().map(|row| row["episode"].clone()).collect()
}

#[test]
fn packed_rows_say_what_rows_of_their_own_process_say_in_every_form_and_mode() {
    for settings in forms() {
        for mode in [Value::Null, json!("same_step"), json!("next_step")] {
            let alone = run(&settings, 1, mode.clone());
            for rows_per_process in [3, 7] {
                let packed = run(&settings, rows_per_process, mode.clone());
                for (one, other) in alone.iter().zip(&packed) {
                    assert_eq!(one, other, "{settings} {mode} {rows_per_process} rows a process");
                }
            }
        }
    }
}

#[test]
fn the_last_process_has_the_remainder() {
    let (mut agent, started) = crews(json!({}), 7, 3, json!({}));
    assert_eq!(started["rows_per_process"], 3);
    let status = agent.status();
    let pids: Vec<&Value> = (0..7).map(|row| &status["rows"][row]["pid"]).collect();
    assert_eq!([pids[0], pids[0], pids[3], pids[3]], [pids[1], pids[2], pids[4], pids[5]]);
    assert!(pids[0] != pids[3] && pids[3] != pids[6] && pids[0] != pids[6], "{pids:?}");
    let infos = agent.reset(json!({})).column("infos");
    assert_eq!((&infos[2]["message"], &infos[6]["message"]), (&json!(3), &json!(1)), "rows of a message");
}

#[test]
fn forks_of_a_template_are_packed_too() {
    let (mut agent, started) = crews(json!({"template": true, "raw": true}), 5, 2, json!({"way": "fork"}));
    assert_eq!((&started["way"], &started["hello"]["rows"]), (&json!("fork"), &json!(2)));
    assert_eq!(agent.step(json!([1, 2, 3, 4, 5]), json!({})).column("rewards"), json!([1.0, 2.0, 3.0, 4.0, 5.0]));
    let status = agent.status();
    assert_eq!(status["rows"][0]["pid"], status["rows"][1]["pid"]);
    assert_ne!(status["rows"][1]["pid"], status["rows"][2]["pid"]);
}

#[test]
fn only_the_selected_rows_of_a_process_are_asked() {
    let (mut agent, _) = crews(json!({"raw": true}), 6, 3, json!({}));
    agent.step(json!([1, 1, 1, 1, 1, 1]), json!({}));
    let batch = agent.step(json!([70, 72, 73]), json!({"rows": [0, 2, 5]}));
    assert_eq!(batch.column("obs"), json!([[70.0, 2.0], [72.0, 2.0], [73.0, 2.0]]));
    let observed = Batch::of(agent.request(&json!({"op": "observe", "encoding": "json"}), b""));
    assert_eq!(observed.column("obs")[1], json!([1.0, 1.0]));
    assert_eq!(observed.column("obs")[2], json!([72.0, 2.0]));
    let reset = agent.reset(json!({"rows": [1, 2], "seeds": [5, null]}));
    assert_eq!((&reset.column("infos")[0]["seed"], &reset.column("infos")[0]["message"]), (&json!(5), &json!(2)));
}

#[test]
fn actions_of_an_array_reach_the_rows_that_they_are_for() {
    for raw in [true, false] {
        let (mut agent, _) = crews(json!({"raw": raw}), 5, 2, json!({"autoreset": "next_step"}));
        let actions = |numbers: &[i64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        let changes = json!({"actions": {"kind": "array", "dtype": "<i8", "shape": []}});
        let batch = batch_with(&mut agent, "step", changes.clone(), &actions(&[1, 9, 3, 4, 5]));
        assert_eq!(batch.column("rewards"), json!([1.0, 9.0, 3.0, 4.0, 5.0]));
        // Row 1 is reset meanwhile, so that only row 0 of its process is stepped.
        let batch = batch_with(&mut agent, "step", changes, &actions(&[6, 7, 8, 1, 2]));
        assert_eq!(batch.column("rewards"), json!([6.0, 0.0, 8.0, 1.0, 2.0]));
        let wide = json!({"actions": {"kind": "array", "dtype": "<f4", "shape": [2]}, "rows": [0, 1, 4]});
        let bytes: Vec<u8> = [1.0f32, 0.0, 2.0, 0.0, 3.0, 0.0].iter().flat_map(|number| number.to_le_bytes()).collect();
        if raw {
            let batch = batch_with(&mut agent, "step", wide, &bytes);
            assert_eq!(batch.column("rewards"), json!([1.0, 2.0, 3.0]));
        }
    }
}

#[test]
fn binary_columns_are_the_buffers_of_all_processes() {
    let (mut agent, _) = crews(json!({"form": "dict", "raw": true}), 5, 2, json!({}));
    let body = br#"{"actions":[1,2,3,4,5]}"#;
    let batch = batch_with(&mut agent, "step", json!({"encoding": "binary"}), body);
    let floats: Vec<f32> = batch
        .bytes("obs", Some(0))
        .chunks_exact(4)
        .map(|chunk| f32::from_le_bytes(chunk.try_into().expect("4")))
        .collect();
    assert_eq!(floats, [1.0, 1.0, 2.0, 1.0, 3.0, 1.0, 4.0, 1.0, 5.0, 1.0]);
    let numbers: Vec<i64> = batch
        .bytes("obs", Some(1))
        .chunks_exact(8)
        .map(|chunk| i64::from_le_bytes(chunk.try_into().expect("8")))
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(batch.bytes("infos", None).len(), 0);
}

#[test]
fn options_are_one_for_all_or_one_each_within_a_message() {
    let (mut agent, _) = crews(json!({}), 5, 2, json!({}));
    let batch = batch_with(&mut agent, "reset", json!({"total": 5}), br#"{"options":{"all":1.0}}"#);
    assert!(batch.column("infos").as_array().expect("infos").iter().all(|info| info["options"] == json!({"all": 1.0})));
    let body = br#"{"options":[{"a":0},{"a":1},{"a":2},null,{"a":4}]}"#;
    let infos = batch_with(&mut agent, "reset", json!({"total": 5}), body).column("infos");
    let options: Vec<&Value> = infos.as_array().expect("infos").iter().map(|info| &info["options"]["a"]).collect();
    assert_eq!(options, [&json!(0), &json!(1), &json!(2), &Value::Null, &json!(4)]);
}

#[test]
fn a_config_a_row_reaches_each_row() {
    let mut agent = Agent::new();
    let path = harness::program("crew.py");
    let head = agent.start_head(&harness::python(&path, &["{}"]), 3, json!({"rows_per_process": 2}));
    let started = agent.request(&head, br#"{"config":[{"level":0},{"level":1},{"level":2}]}"#).head;
    assert_eq!(started["ok"], true, "{started}");
    agent.request(&json!({"op": "layout", "layout": started["layout"]}), b"");
    let infos = agent.reset(json!({})).column("infos");
    let levels: Vec<&Value> = infos.as_array().expect("infos").iter().map(|info| &info["config"]["level"]).collect();
    assert_eq!(levels, [&json!(0), &json!(1), &json!(2)]);
}

#[test]
fn calls_are_one_message_a_process() {
    let (mut agent, _) = crews(json!({}), 5, 3, json!({}));
    let batch = agent.call("render", json!({"args": [1.0]}), json!({"rows": [0, 2, 3]}));
    let results = batch.column("results");
    assert_eq!(results[1], json!({"op": "call", "row": 2, "args": [1.0], "rows": 2}));
    assert_eq!(results[2], json!({"op": "call", "row": 0, "args": [1.0], "rows": 1}));
    for kind in ["get", "has", "wrapped"] {
        let batch = agent.call("gravity", json!({}), json!({"call": kind}));
        assert_eq!(batch.column("results")[4], json!({"op": kind, "row": 1, "args": null, "rows": 2}));
    }
    let batch = agent.call("gravity", json!({"values": [1, 2]}), json!({"call": "set"}));
    assert_eq!(batch.column("results")[4], json!({"row": 1, "value": [1, 2]}));
    let each = json!({"call": "set", "per_row": true, "total": 5});
    let batch = agent.call("gravity", json!({"values": [1, 2, 3, 4, 5]}), each);
    assert_eq!(batch.column("results")[4], json!({"row": 1, "value": 5}));
}

#[test]
fn in_flight_counts_the_rows_of_processes_that_run() {
    let (mut agent, _) = crews(json!({}), 6, 2, json!({"in_flight": 2, "deadlines_ms": {"step": 1500}}));
    let folder = agent.folder.clone();
    // Each process fails if it finds the mark of another one: made when it begins, gone when it ends.
    let script = |process: usize| {
        json!({"play": [["crowd", folder.join(format!("mark{process}")), folder, 1, 0.2],
        ["exists", folder.join("never")]]})
    };
    let batch = agent.step(json!([script(0), 1, script(1), 1, script(2), 1]), json!({}));
    assert_eq!(batch.head["failed"], json!([]), "{}", batch.text("infos"));
}

#[test]
fn a_soft_reset_leaves_the_objects_and_a_hard_one_of_a_part_makes_new_ones_in_the_same_process() {
    let (mut agent, _) = crews(json!({}), 4, 4, json!({"seeds": "continue"}));
    let before = agent.status()["rows"][0]["pid"].clone();
    let soft = agent.reset(json!({"rows": [1, 2]})).column("infos");
    assert_eq!((&soft[0]["object"], &soft[0]["seed"]), (&json!(0), &Value::Null));
    let hard = agent.reset(json!({"rows": [1, 2], "hard": true})).column("infos");
    assert_eq!((&hard[0]["object"], &hard[1]["object"]), (&json!(1), &json!(1)));
    assert!(hard[0]["seed"].is_u64(), "the first reset of a new object is seeded: {hard}");
    assert_eq!(agent.status()["rows"][0]["pid"], before);
    assert_eq!(agent.reset(json!({})).column("infos")[0]["object"], 0, "rows that were not selected kept theirs");
    let whole = agent.reset(json!({"hard": true})).column("infos");
    assert_eq!(whole[1]["object"], 0, "a new process");
    assert_ne!(agent.status()["rows"][0]["pid"], before);
}

#[test]
fn a_hard_reset_of_whole_and_partial_processes_at_once() {
    let (mut agent, _) = crews(json!({}), 6, 2, json!({}));
    let before = agent.status();
    let infos = agent.reset(json!({"rows": [0, 1, 2, 5], "hard": true})).column("infos");
    let objects: Vec<&Value> = infos.as_array().expect("infos").iter().map(|info| &info["object"]).collect();
    assert_eq!(objects, [&json!(0), &json!(0), &json!(1), &json!(1)]);
    let after = agent.status();
    let replaced = |row: usize| before["rows"][row]["pid"] != after["rows"][row]["pid"];
    assert_eq!([replaced(0), replaced(2), replaced(4)], [true, false, false]);
}

#[test]
fn a_nonfinite_reward_is_warned_of_in_its_row_alone() {
    let (mut agent, _) = crews(json!({"lists": true}), 3, 3, json!({}));
    let reply = r#"{"id":$ID,"obs":{"$nd":["<f4",[3,2],"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]},"reward":[1,NaN,2],"terminated":[false,false,false]}"#;
    let batch = agent.step(json!([{"play": [["write", reply]]}, 1, 1]), json!({}));
    assert_eq!(batch.column("rewards"), json!([1.0, {"$float": "nan"}, 2.0]));
    assert_eq!(batch.column("infos"), json!([{}, {"sandpool_warning": "nonfinite_reward"}, {}]));
}

#[test]
fn a_process_that_sends_more_than_one_turn_of_bytes_is_read_whole() {
    let (mut agent, _) = crews(json!({"form": "list"}), 3, 3, json!({}));
    let long = "x".repeat(400_000);
    let batch = agent.step(json!([{"info": {"long": long}}, {"info": {"long": long}}, 1]), json!({}));
    assert_eq!(batch.column("infos")[1]["long"].as_str().map(str::len), Some(400_000));
    let batch = agent.step(json!([1, {"info": {"long": long}}, 1]), json!({}));
    assert_eq!(batch.column("infos")[1]["long"].as_str().map(str::len), Some(400_000));
}
