//! The Python helper and the agent together: several rows in one process.

mod harness;

use harness::{Agent, Batch, program, python};
use serde_json::{Value, json};
use std::path::Path;

fn counters(count: u32, rows_per_process: Value, changes: Value) -> (Agent, Value) {
    let mut agent = Agent::new();
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/src");
    let environ = json!({"PATH": "/usr/bin:/bin", "PYTHONPATH": library, "PYTHONDONTWRITEBYTECODE": "1"});
    let mut head = agent.start_head(&python(&program("made.py"), &[]), count, changes);
    head["way"] = json!("fork");
    head["environ"] = environ;
    head["rows_per_process"] = rows_per_process;
    let started = agent.request(&head, br#"{"config":{"level":1.0}}"#).head;
    assert_eq!(started["ok"], true, "{started}");
    let layout = json!({"op": "layout", "layout": started["layout"]});
    assert_eq!(agent.request(&layout, b"").head["ok"], true);
    (agent, started)
}

fn run(rows_per_process: u32, mode: &Value) -> Vec<String> {
    let (mut agent, _) = counters(5, json!(rows_per_process), json!({"autoreset": mode, "seeds": "continue"}));
    let observed = Batch::of(agent.request(&json!({"op": "observe", "encoding": "json"}), b""));
    let mut said = vec![observed.text("obs"), observed.column("infos").to_string()];
    let batches = [
        agent.step(json!([1, 2, 3, 4, 7]), json!({})),
        agent.step(json!([9, 1, 8, 1, 9]), json!({})),
        agent.step(json!([1, 1, 1, 9, 1]), json!({})),
        agent.step(json!([2, 3]), json!({"rows": [1, 4]})),
        agent.reset(json!({"rows": [0, 3], "seeds": [5, null]})),
        agent.reset(json!({})),
    ];
    for batch in batches {
        assert_eq!(batch.head["failed"], json!([]), "{}", batch.text("infos"));
        let names = batch.head["columns"].as_array().expect("columns").iter().map(|column| column["name"].as_str());
        said.extend(names.flatten().map(|name| batch.column(name).to_string()));
    }
    said
}

#[test]
fn packed_or_not_the_helper_says_the_same() {
    for mode in [Value::Null, json!("same_step"), json!("next_step")] {
        let alone = run(1, &mode);
        for rows_per_process in [2, 5] {
            assert_eq!(alone, run(rows_per_process, &mode), "{mode} {rows_per_process} rows a process");
        }
    }
}

#[test]
fn a_row_that_raises_or_sleeps_fails_alone() {
    let (mut agent, started) = counters(4, json!(4), json!({"deadlines_ms": {"step": 3000}}));
    assert_eq!(started["hello"]["rows"], 4);
    let batch = agent.step(json!([1, "raise", 3, 4]), json!({}));
    assert_eq!((&batch.head["failed"], &batch.error(1)["type"]), (&json!([1]), &json!("ValueError")));
    assert_eq!(batch.column("rewards"), json!([1.0, 0.0, 3.0, 4.0]));
    agent.reset(json!({"rows": [1]}));
    let batch = agent.step(json!([1, 2, "sleep", 4]), json!({}));
    assert_eq!(batch.head["failed"], json!([2]), "{}", batch.text("infos"));
    assert_eq!((&batch.error(2)["kind"], &batch.error(2)["deadline_s"]), (&json!("timeout"), &json!(3.0)));
    assert_eq!(batch.column("rewards"), json!([1.0, 2.0, 0.0, 4.0]));
    assert_eq!(agent.reset(json!({"rows": [2]})).head["failed"], json!([]));
    assert_eq!(agent.status()["counters"]["replacements"], 0);
}

#[test]
fn a_row_that_will_not_be_interrupted_takes_its_process_with_it() {
    let (mut agent, _) = counters(4, json!(2), json!({"deadlines_ms": {"step": 1000}}));
    let batch = agent.step(json!(["stay", 2, 3, 4]), json!({}));
    assert_eq!(batch.head["failed"], json!([0, 1]), "{}", batch.text("infos"));
    assert_eq!((&batch.error(1)["kind"], &batch.head["stragglers"]), (&json!("timeout"), &json!([0, 1])));
    let message = batch.error(1)["message"].as_str().expect("a message").to_owned();
    assert!(message.contains("rows 0 to 1 shared this process"), "{message}");
    assert_eq!(agent.reset(json!({"rows": [0, 1]})).head["failed"], json!([]));
}
