//! A row that fails on the stream: what is told, and how it comes back without holding anybody.

mod harness;

use harness::stream::RowResult;
use harness::{Agent, puppets};
use serde_json::{Value, json};

const ANSWER: &str = r#"{"id":$ID,"obs":7,"reward":1,"terminated":false}"#;

fn one(agent: &mut Agent, row: u32, action: Value) -> RowResult {
    agent.send_step(json!([row]), json!([action]));
    agent.receive(1).remove(0)
}

fn reset(agent: &mut Agent, row: u32, changes: Value) -> RowResult {
    agent.send_reset(json!([row]), changes);
    agent.receive(1).remove(0)
}

/// What one script in row 1 of two comes to; row 0 is served all the same, and row 1 again after a reset.
fn fault(script: Value, changes: Value) -> Value {
    let (mut agent, _) = puppets(json!({}), 2, changes);
    agent.send_step(json!([0, 1]), json!([4, script]));
    let mut results = agent.receive(2);
    results.sort_by_key(|result| result.row);
    assert_eq!((&results[0].obs, results[0].failed), (&json!(4.0), false));
    let failed = results.remove(1);
    assert!(failed.failed);
    assert_eq!((&failed.obs, failed.reward), (&Value::Null, 0.0));
    let is_exception = failed.error()["kind"] == "exception";
    assert_eq!((failed.terminated, failed.truncated), (is_exception, !is_exception));
    let again = one(&mut agent, 1, json!(1));
    assert_eq!((&again.error()["kind"], &again.error()["repeated"]), (&failed.error()["kind"], &json!(true)));
    let reset = reset(&mut agent, 1, json!({}));
    assert_eq!((reset.failed, &reset.obs), (false, &json!(0.0)), "{}", reset.info);
    assert_eq!(one(&mut agent, 1, json!(5)).obs, 5.0);
    failed.error().clone()
}

#[test]
fn a_crash_is_told_with_its_code_and_stderr() {
    let error = fault(json!([["stderr", "out of luck\n"], ["exit", 7]]), json!({}));
    assert_eq!((&error["kind"], &error["exit_code"], &error["op"]), (&json!("crash"), &json!(7), &json!("step")));
    assert_eq!(error["stderr_tail"], "out of luck\n");
}

#[test]
fn an_exception_ends_the_episode() {
    let text = r#"{"id":$ID,"error":{"kind":"exception","type":"ValueError","message":"bad","traceback":"tb"}}"#;
    assert_eq!(fault(json!([["write", text]]), json!({}))["type"], "ValueError");
}

#[test]
fn a_lack_of_memory_is_oom() {
    let text = r#"{"id":$ID,"error":{"kind":"oom","type":"MemoryError","message":"","traceback":null}}"#;
    assert_eq!(fault(json!([["write", text]]), json!({}))["kind"], "oom");
}

#[test]
fn a_broken_line_is_a_protocol_fault() {
    assert_eq!(fault(json!([["write", "no JSON"]]), json!({}))["kind"], "protocol");
}

#[test]
fn a_rows_clock_is_its_own_and_the_first_timeout_is_a_straggler() {
    let error = fault(json!([["sleep", 60]]), json!({"deadlines_ms": {"step": 2000}}));
    assert_eq!((&error["kind"], &error["deadline_s"]), (&json!("timeout"), &json!(2.0)));
    let (mut agent, _) = puppets(json!({}), 1, json!({"deadlines_ms": {"step": 200}}));
    agent.send_step(json!([0]), json!([[["sleep", 60]]]));
    let results = agent.results();
    assert_eq!(results.batch.head["stragglers"], json!([0]));
    assert_eq!(results.each()[0].info["sandpool_straggler"], true);
    agent.send_step(json!([0]), json!([1]));
    assert_eq!(agent.results().batch.head["stragglers"], json!([]), "a repeated timeout is no new straggler");
}

#[test]
fn a_failed_row_waits_for_its_replacement_without_holding_anybody() {
    let folder = std::env::temp_dir().join(format!("sandpool-stream-hold-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (failed, gate) = (folder.join("failed"), folder.join("gate"));
    let hello = r#"{"id":$ID,"ok":true,"protocol":1,"features":[],"rows":1}"#;
    let settings = json!({"hello_script": [["exists", failed], ["await", gate], ["write", hello]]});
    // One row at a time: were the waiting one counted, nobody else could go on.
    let (mut agent, _) = puppets(settings, 2, json!({"in_flight": 1}));
    std::fs::write(&failed, "").expect("the mark");
    assert_eq!(one(&mut agent, 0, json!([["exit", 3]])).error()["exit_code"], 3);
    agent.send_reset(json!([0]), json!({}));
    for action in 1..6 {
        let result = one(&mut agent, 1, json!(action));
        assert_eq!((result.row, result.reward), (1, f64::from(action)));
    }
    std::fs::write(&gate, "").expect("the gate");
    let result = agent.receive(1).remove(0);
    assert_eq!((result.row, result.op.as_str(), result.failed), (0, "reset", false), "{}", result.info);
    assert_eq!(one(&mut agent, 0, json!(8)).obs, 8.0);
    std::fs::remove_dir_all(&folder).expect("the folder");
}

#[test]
fn a_replacement_that_came_waits_for_its_turn_when_as_many_run_as_may() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"in_flight": 1}));
    let folder = agent.folder.clone();
    let (crowd, gate) =
        (|row| json!(["crowd", folder.join(format!("mark{row}")), folder, 1, 0.2]), folder.join("gate"));
    one(&mut agent, 0, json!([["exit", 3]]));
    let answer = r#"{"id":$ID,"obs":5,"info":{}}"#;
    let head = json!({"kind": "reset", "rows": [0], "seeds": null, "hard": false, "total": 1});
    let options = json!({"options": [[crowd(0), ["write", answer]]]});
    // Each fails if it finds the mark of the other: made when it begins, gone when it ends.
    agent.send_off(head, options.to_string().as_bytes());
    agent.send_step(json!([1]), json!([[["await", gate], crowd(1), ["write", ANSWER]]]));
    agent.await_status(|status| status["rows"][0]["pid"].is_number());
    std::fs::write(&gate, "").expect("the gate");
    for result in agent.receive(2) {
        assert!(!result.failed, "{}", result.info);
    }
}

#[test]
fn a_lost_row_is_told_until_a_hard_reset() {
    let mark = std::env::temp_dir().join(format!("sandpool-stream-lost-{}", std::process::id()));
    let (mut agent, _) = puppets(json!({"hello_script": [["exists", mark], ["exit", 1]]}), 2, json!({}));
    std::fs::write(&mark, "").expect("the mark");
    one(&mut agent, 0, json!([["exit", 2]]));
    agent.await_status(|status| status["rows"][0]["state"] == "lost");
    assert_eq!(one(&mut agent, 0, json!(1)).error()["kind"], "lost");
    let refused = reset(&mut agent, 0, json!({}));
    assert_eq!((&refused.error()["kind"], &refused.error()["repeated"]), (&json!("lost"), &json!(true)));
    assert_eq!(one(&mut agent, 1, json!(3)).obs, 3.0);
    std::fs::remove_file(&mark).expect("the mark");
    assert!(!reset(&mut agent, 0, json!({"hard": true})).failed);
    assert_eq!(one(&mut agent, 0, json!(3)).obs, 3.0);
}

#[test]
fn a_reset_that_fails_is_a_failed_reset_without_reward_or_flags() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    let text = r#"{"id":$ID,"error":{"kind":"exception","type":"ValueError","message":"bad","traceback":"tb"}}"#;
    let head = json!({"kind": "reset", "rows": [0], "seeds": null, "hard": false, "total": 1});
    agent.send_off(head, json!({"options": [[["write", text]]]}).to_string().as_bytes());
    let result = agent.receive(1).remove(0);
    assert_eq!((result.op.as_str(), result.failed, &result.error()["op"]), ("reset", true, &json!("reset")));
    assert_eq!((result.reward, result.terminated, result.truncated), (0.0, false, false));
    assert!(!reset(&mut agent, 0, json!({})).failed);
}

#[test]
fn a_reset_that_raised_is_sent_again_with_its_own_bytes_after_other_messages_came() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let (mark, gate) = (agent.folder.join("mark"), agent.folder.join("gate"));
    let text = r#"{"id":$ID,"error":{"kind":"exception","type":"ValueError","message":"bad","traceback":"tb"}}"#;
    let head = json!({"kind": "reset", "rows": [0], "seeds": [77], "hard": false, "total": 1});
    let script = json!([["once", mark], ["await", gate], ["write", text]]);
    agent.send_off(head, json!({"options": [script]}).to_string().as_bytes());
    for action in 0..4 {
        one(&mut agent, 1, json!([["write", ANSWER], ["stderr", "x".repeat(100 + action)]]));
    }
    std::fs::write(&gate, "").expect("the gate");
    let result = agent.receive(1).remove(0);
    assert_eq!((result.row, result.failed, &result.info["seed"]), (0, false, &json!(77)), "{}", result.info);
}

#[test]
fn a_row_that_ended_between_two_messages_tells_it_once() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    let last = r#"{"id":$ID,"obs":7,"reward":1,"terminated":true}"#;
    assert_eq!(one(&mut agent, 0, json!([["write", last], ["exit", 0]])).obs, 7.0);
    agent.await_status(|status| status["rows"][0]["error"]["kind"] == "crash");
    let told = one(&mut agent, 0, json!(1));
    assert_eq!((&told.error()["op"], &told.error()["repeated"]), (&json!("idle"), &Value::Null));
    let batch = agent.step(json!([1]), json!({}));
    assert_eq!(batch.error(0)["repeated"], true, "a batch goes on where the stream ended");
}

#[test]
fn answers_that_nobody_waits_for_are_counted_in_the_next_event() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let gate = agent.folder.join("gate");
    agent.send_step(json!([1]), json!([[["await", gate], ["write", ANSWER]]]));
    agent.send_step(json!([0]), json!([[["write", ANSWER], ["write", ANSWER], ["write", ANSWER]]]));
    let late = |agent: &mut Agent| agent.results().batch.head["late_replies"].as_u64().expect("a count");
    let first = late(&mut agent);
    agent.await_status(|status| status["counters"]["late_replies"] == 2);
    std::fs::write(&gate, "").expect("the gate");
    assert_eq!(first + late(&mut agent), 2);
    agent.send_step(json!([0]), json!([1]));
    assert_eq!(late(&mut agent), 0, "they were told before");
}
