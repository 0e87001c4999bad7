//! The state path: what cannot fork is copied by its environment's state.

mod harness;

use harness::branch::{totals, twins};
use harness::{Agent, Batch, crews};
use serde_json::{Value, json};

/// Twins that refuse to fork, and have a state.
fn stubborn(settings: Value, count: u32, changes: Value) -> Agent {
    twins(harness::merged(json!({"refuse": "/", "state": true}), &settings), count, changes)
}

fn stepped(agent: &mut Agent, rows: usize) -> Vec<f64> {
    let batch = agent.step(json!(vec![0; rows]), json!({}));
    let column = batch.column("obs");
    column.as_array().expect("observations").iter().map(|pair| pair[1].as_f64().expect("steps")).collect()
}

fn crew(settings: Value, count: u32, size: u32, changes: Value) -> Agent {
    crews(harness::merged(json!({"features": ["batch", "raw", "state"], "raw": true}), &settings), count, size, changes)
        .0
}

#[test]
fn a_source_that_refuses_to_fork_is_copied_by_its_state() {
    let mut agent = stubborn(json!({}), 3, json!({}));
    agent.add(json!([5, 1, 2]));
    let pids = agent.ask("pid");
    assert_eq!(agent.hold("fork", json!([[0, 2], [2, 0]]), json!({"reseed": [9, null]})), json!(["state", "state"]));
    let batch = Batch::of(agent.settle(json!({})));
    assert_eq!((totals(&batch), &batch.head["reseeded"]), (vec![2, 5], &json!([null, ["stream"]])));
    assert_eq!(agent.add(json!([1, 1, 1])), [3, 2, 6]);
    assert_eq!((agent.ask("pid"), &agent.ask("stream")[2]), (pids, &json!(9)), "the processes are the same");
}

#[test]
fn a_state_of_bytes_is_restored_across_resets_and_counted() {
    let mut agent = stubborn(json!({}), 2, json!({}));
    agent.add(json!([5, 1]));
    let saved = agent.save(json!([[0, 2]]));
    assert_eq!((&saved[0]["way"], &saved[0]["step"]), (&json!("state"), &json!(1)));
    agent.reset(json!({"hard": true}));
    assert_eq!(totals(&agent.restore(json!([[2, 0], [2, 1]]))), [5, 5]);
    assert_eq!(agent.add(json!([1, 2])), [6, 7]);
    let status = agent.status();
    let state = &status["states"][0];
    assert_eq!([&state["slot"], &state["pid"], &state["way"]], [&json!(2), &Value::Null, &json!("state")]);
    assert!(state["bytes"].as_u64().is_some_and(|bytes| bytes > 20), "{state}");
    agent.drop_states(json!([2]));
    assert_eq!(agent.status()["states"], json!([]));
}

#[test]
fn a_spawned_program_and_one_that_may_not_fork_have_their_state() {
    for changes in [json!({"way": "spawn"}), json!({"branching": false})] {
        let plain = changes["way"] == "spawn";
        let mut agent = twins(json!({"plain": plain, "state": true}), 2, changes);
        agent.add(json!([5, 1]));
        assert_eq!(agent.hold("fork", json!([[0, 1]]), json!({})), json!(["state"]));
        assert_eq!(totals(&Batch::of(agent.settle(json!({})))), [5]);
    }
}

#[test]
fn a_live_fork_is_preferred_to_the_state() {
    let mut agent = twins(json!({"state": true}), 2, json!({}));
    agent.add(json!([5, 1]));
    assert_eq!(agent.hold("fork", json!([[0, 1]]), json!({})), json!(["fork"]));
    assert_eq!(totals(&Batch::of(agent.settle(json!({})))), [5]);
}

#[test]
fn a_state_that_cannot_be_had_is_told_beside_what_kept_the_process_from_forking() {
    let failure =
        r#"{"id":$ID,"error":{"kind":"exception","type":"ValueError","message":"half open","traceback":"tb"}}"#;
    let mut agent = stubborn(json!({"state_script": [["write", failure]]}), 2, json!({}));
    agent.add(json!([5, 1]));
    let sources = agent.refused("save", json!([[0, 0]]));
    let blockers = json!([{"threads": 3, "names": ["openblas"]}, {"state": "ValueError: half open"}]);
    assert_eq!(sources[0]["blockers"], blockers);
    assert_eq!(sources[0]["text"], "threads: 3 (openblas); state: ValueError: half open");
    assert_eq!(agent.look(2), [5, 1]);
}

#[test]
fn a_target_that_does_not_take_a_state_is_a_failed_row() {
    let failure = r#"{"id":$ID,"error":{"kind":"exception","type":"KeyError","message":"total","traceback":"tb"}}"#;
    let mut agent = stubborn(json!({"set_script": [["write", failure]]}), 2, json!({}));
    agent.add(json!([5, 1]));
    agent.hold("fork", json!([[0, 1]]), json!({}));
    let batch = Batch::of(agent.settle(json!({})));
    assert_eq!((&batch.head["failed"], &batch.error(0)["kind"]), (&json!([1]), &json!("exception")));
    assert_eq!((&batch.error(0)["op"], &batch.error(0)["type"]), (&json!("restore"), &json!("KeyError")));
    agent.reset(json!({"rows": [1]}));
    assert_eq!(agent.add(json!([1, 1])), [6, 1]);
}

#[test]
fn a_failed_target_waits_for_its_replacement() {
    let mut agent = stubborn(json!({}), 2, json!({}));
    agent.add(json!([5, 1]));
    agent.step(json!([0, [["exit", 3]]]), json!({}));
    let batch = agent.fork(json!([[0, 1]]));
    assert_eq!((totals(&batch), &batch.head["failed"]), (vec![5], &json!([])));
    assert_eq!(agent.add(json!([1, 1])), [6, 6]);
}

#[test]
fn rows_of_shared_processes_are_copied_with_their_steps_in_one_message_a_process() {
    let mut agent = crew(json!({}), 5, 2, json!({}));
    let first = agent.reset(json!({}));
    for steps in [json!([0, 1, 2, 3, 4]), json!([0, 4])] {
        let rows = steps.as_array().map(Vec::len);
        agent.step(json!(vec![1; rows.expect("rows")]), json!({"rows": steps}));
    }
    let pids: Vec<Value> =
        agent.status()["rows"].as_array().expect("rows").iter().map(|row| row["pid"].clone()).collect();
    agent.hold("fork", json!([[0, 1], [0, 3], [4, 2], [1, 4]]), json!({"reseed": [null, 100, null, null]}));
    let batch = Batch::of(agent.settle(json!({})));
    assert_eq!(batch.head["reseeded"], json!([null, null, ["steps"], null]));
    let infos = batch.items("infos");
    assert_eq!(infos[0], first.items("infos")[0], "the source's reset info");
    assert_eq!(stepped(&mut agent, 5), [3.0, 3.0, 3.0, 103.0, 2.0]);
    let now: Vec<Value> =
        agent.status()["rows"].as_array().expect("rows").iter().map(|row| row["pid"].clone()).collect();
    assert_eq!(now, pids);
    let saved = agent.save(json!([[0, 0], [1, 1], [2, 2], [3, 3], [4, 4]]));
    let steps: Vec<_> = saved.as_array().expect("states").iter().map(|state| state["step"].clone()).collect();
    assert_eq!(steps, [3, 3, 3, 3, 2]);
}

#[test]
fn the_last_process_of_one_row_forks_onto_no_shared_one() {
    let settings = json!({"features": ["batch", "state", "fork"], "template": true});
    let mut agent = crew(settings, 3, 2, json!({"way": "auto"}));
    agent.step(json!([1, 1, 1]), json!({}));
    agent.step(json!([1]), json!({"rows": [2]}));
    assert_eq!(agent.hold("fork", json!([[2, 0]]), json!({})), json!(["state"]));
    Batch::of(agent.settle(json!({})));
    assert_eq!(stepped(&mut agent, 3), [3.0, 2.0, 3.0]);
}

#[test]
fn rows_that_fail_alone_leave_the_others_of_their_process_as_they_are() {
    let mut agent = crew(json!({"mute": 1}), 4, 4, json!({}));
    agent.step(json!([1, 1, 1, 1]), json!({}));
    let sources = agent.refused("fork", json!([[0, 2], [1, 3]]));
    let text = "spawned; packed: 4; state: FailureError: as asked";
    let blockers = json!([{"spawned": true}, {"packed": 4}, {"state": "FailureError: as asked"}]);
    assert_eq!(sources, json!([{"row": 1, "blockers": blockers, "text": text}]));
    let mut agent = crew(json!({"deaf": 3}), 4, 4, json!({}));
    agent.step(json!([1, 1, 1, 1]), json!({}));
    agent.step(json!([1]), json!({"rows": [0]}));
    agent.hold("fork", json!([[0, 2], [0, 3]]), json!({}));
    let batch = Batch::of(agent.settle(json!({})));
    assert_eq!((&batch.head["failed"], &batch.error(1)["type"]), (&json!([3]), &json!("FailureError")));
    let batch = agent.step(json!([0, 0, 0, 0]), json!({}));
    assert_eq!((&batch.head["failed"], &batch.column("obs")[2]), (&json!([3]), &json!([0.0, 3.0])));
    agent.reset(json!({"rows": [3]}));
    assert_eq!(stepped(&mut agent, 4), [4.0, 3.0, 4.0, 1.0]);
}

#[test]
fn a_failed_row_of_a_shared_process_is_healed_by_a_state() {
    let mut agent = crew(json!({}), 2, 2, json!({}));
    agent.step(json!([1, {"fail": "exception"}]), json!({}));
    let batch = agent.fork(json!([[0, 1]]));
    assert_eq!(batch.head["failed"], json!([]));
    assert_eq!(stepped(&mut agent, 2), [2.0, 2.0]);
}

#[test]
fn a_program_without_the_feature_is_refused_with_what_stands_in_the_way() {
    let mut agent = crew(json!({"features": ["batch", "raw"]}), 4, 2, json!({}));
    let sources = agent.refused("fork", json!([[0, 1], [0, 3]]));
    assert_eq!(
        sources,
        json!([{"row": 0, "blockers": [{"spawned": true}, {"packed": 2}], "text": "spawned; packed: 2"}])
    );
}

#[test]
fn a_process_that_dies_when_it_is_asked_fails_its_rows_by_the_ordinary_rules() {
    let mut agent = stubborn(json!({"state_script": [["exit", 9]]}), 2, json!({}));
    let sources = agent.refused("fork", json!([[0, 1]]));
    assert_eq!(sources[0]["blockers"], json!([{"failed": "crash"}]));
    let batch = agent.step(json!([1, 1]), json!({}));
    assert_eq!((&batch.head["failed"], &batch.error(0)["exit_code"]), (&json!([0]), &json!(9)));
    let mut agent = stubborn(json!({"set_script": [["write", "{\"id\":$ID}"]]}), 2, json!({}));
    agent.hold("fork", json!([[0, 1]]), json!({}));
    let batch = Batch::of(agent.settle(json!({})));
    assert_eq!((&batch.head["failed"], &batch.error(0)["kind"]), (&json!([1]), &json!("protocol")));
}
