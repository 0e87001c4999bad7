//! A fault of one environment costs its own row, and says what happened.

mod harness;

use harness::puppets;
use serde_json::{Value, json};

/// What one script in row 1 of three comes to; rows 0 and 2 have to be served all the same.
fn fault(script: Value, changes: Value) -> Value {
    let (mut agent, _) = puppets(json!({}), 3, changes);
    let batch = agent.step(json!([4, script, 5]), json!({}));
    assert_eq!(batch.column("obs"), json!([4.0, null, 5.0]));
    assert_eq!(batch.column("rewards"), json!([4.0, 0.0, 5.0]));
    assert_eq!(batch.head["failed"], json!([1]));
    let error = batch.error(1);
    let is_exception = error["kind"] == "exception";
    assert_eq!(batch.column("terminated"), json!([false, is_exception, false]));
    assert_eq!(batch.column("truncated"), json!([false, !is_exception, false]));
    let again = agent.step(json!([1, 2, 3]), json!({}));
    assert_eq!(again.error(1)["repeated"], true, "a failed row that is stepped again: {}", again.error(1));
    assert_eq!(again.error(1)["kind"], error["kind"]);
    assert_eq!(again.column("obs"), json!([1.0, null, 3.0]));
    let reset = agent.reset(json!({"rows": [1]}));
    assert_eq!(reset.head["failed"], json!([]), "the reset of a failed row");
    let healed = agent.step(json!([1, 2, 3]), json!({}));
    assert_eq!(healed.column("obs"), json!([1.0, 2.0, 3.0]));
    error
}

fn protocol_fault(script: Value, expected: &str) {
    let error = fault(script, json!({"max_message_bytes": 1 << 16}));
    assert_eq!(error["kind"], "protocol", "{error}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains(expected), "{message} does not say {expected}");
}

#[test]
fn a_process_that_exits_is_a_crash_with_its_code_and_stderr() {
    let error = fault(json!([["stderr", "out of luck\n"], ["exit", 7]]), json!({}));
    assert_eq!(error["kind"], "crash");
    assert_eq!(error["exit_code"], 7);
    assert_eq!(error["signal"], Value::Null);
    assert_eq!(error["op"], "step");
    assert_eq!(error["stderr_tail"], "out of luck\n");
}

#[test]
fn a_process_that_is_killed_is_a_crash_with_its_signal() {
    let error = fault(json!([["kill", 9]]), json!({}));
    assert_eq!((&error["kind"], &error["signal"]), (&json!("crash"), &json!(9)));
}

#[test]
fn a_process_that_closes_its_channel_and_lives_is_a_crash() {
    let error = fault(json!([["closed"]]), json!({}));
    assert_eq!(error["kind"], "crash");
    assert_eq!(error["message"], "the environment closed its channel");
}

#[test]
fn an_answer_written_before_the_end_still_counts() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    let last = r#"{"id":$ID,"obs":7,"reward":1,"terminated":true}"#;
    let batch = agent.step(json!([[["write", last], ["exit", 0]]]), json!({}));
    assert_eq!(batch.column("obs"), json!([7.0]));
    agent.await_status(|status| status["rows"][0]["error"]["kind"] == "crash");
    let batch = agent.step(json!([1]), json!({}));
    assert_eq!(batch.error(0)["kind"], "crash");
    assert_eq!(batch.error(0)["op"], "idle");
    assert_eq!(batch.error(0)["repeated"], Value::Null, "the first time it is shown it is not repeated");
}

#[test]
fn a_step_without_an_answer_is_a_timeout_and_a_straggler() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"deadlines_ms": {"step": 200}}));
    let batch = agent.step(json!([1, [["sleep", 60]]]), json!({}));
    let error = batch.error(1);
    assert_eq!(error["kind"], "timeout");
    assert_eq!(error["deadline_s"], 0.2);
    assert!(error["cpu_s"].is_number(), "{error}");
    assert_eq!(batch.column("infos")[1]["sandpool_straggler"], true);
    assert_eq!(batch.head["stragglers"], json!([1]));
    let again = agent.step(json!([1, 1]), json!({}));
    assert_eq!(again.head["stragglers"], json!([]), "a repeated timeout is no new straggler");
}

#[test]
fn an_exception_is_reported_and_ends_the_episode() {
    let text = r#"{"id":$ID,"error":{"kind":"exception","type":"ValueError","message":"bad","traceback":"File x"}}"#;
    let error = fault(json!([["write", text]]), json!({}));
    assert_eq!(error["kind"], "exception");
    assert_eq!(error["type"], "ValueError");
    assert_eq!(error["message"], "bad");
    assert_eq!(error["traceback"], "File x");
}

#[test]
fn a_reported_lack_of_memory_is_oom() {
    let text = r#"{"id":$ID,"error":{"kind":"oom","type":"MemoryError","message":"","traceback":null}}"#;
    assert_eq!(fault(json!([["write", text]]), json!({}))["kind"], "oom");
}

#[test]
fn text_that_is_no_json_is_a_protocol_fault() {
    protocol_fault(json!([["write", "Segmentation fault (just kidding)"]]), "no JSON object");
}

#[test]
fn json_that_is_no_object_is_a_protocol_fault() {
    protocol_fault(json!([["write", "[1,2]"]]), "no JSON object");
}

#[test]
fn an_id_from_the_future_is_a_protocol_fault() {
    protocol_fault(json!([["write", r#"{"id":999,"obs":1,"reward":1,"terminated":false}"#]]), "the id 999");
}

#[test]
fn a_missing_id_is_a_protocol_fault() {
    protocol_fault(json!([["write", r#"{"obs":1,"reward":1,"terminated":false}"#]]), "without an id");
}

#[test]
fn a_missing_reward_is_a_protocol_fault() {
    protocol_fault(json!([["write", r#"{"id":$ID,"obs":1,"terminated":false}"#]]), "\"reward\"");
}

#[test]
fn a_missing_observation_is_a_protocol_fault() {
    protocol_fault(json!([["write", r#"{"id":$ID,"reward":1,"terminated":false}"#]]), "\"obs\"");
}

#[test]
fn a_missing_end_is_a_protocol_fault() {
    protocol_fault(json!([["write", r#"{"id":$ID,"obs":1,"reward":1}"#]]), "\"terminated\"");
}

#[test]
fn a_line_that_is_too_long_is_a_protocol_fault_before_it_ends() {
    let text = "x".repeat(1000);
    protocol_fault(json!([["flood", 10, text], ["sleep", 60]]), "more than 65536 bytes");
}

#[test]
fn json_that_is_too_deep_is_a_protocol_fault() {
    let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
    let text = format!(r#"{{"id":$ID,"obs":1,"reward":1,"terminated":false,"info":{{"x":{deep}}}}}"#);
    protocol_fault(json!([["write", text]]), "deeper than 64");
}

#[test]
fn an_integer_of_more_than_400_digits_is_a_protocol_fault() {
    let text = format!(r#"{{"id":$ID,"obs":1,"reward":1,"terminated":false,"info":{{"x":{}}}}}"#, "7".repeat(401));
    protocol_fault(json!([["write", text]]), "401 digits");
}

#[test]
fn a_lone_surrogate_is_a_protocol_fault() {
    let text = r#"{"id":$ID,"obs":1,"reward":1,"terminated":false,"info":{"x":"\ud800"}}"#;
    protocol_fault(json!([["write", text]]), "surrogate");
}

#[test]
fn invalid_utf8_is_a_protocol_fault() {
    protocol_fault(json!([["text", "{\"id\":$ID,\"obs\":\""], ["hex", "ff227d0a"]]), "UTF-8");
}

#[test]
fn an_observation_of_another_form_is_a_protocol_fault() {
    protocol_fault(json!([["write", r#"{"id":$ID,"obs":[1,2],"reward":1,"terminated":false}"#]]), "expected a number");
}

#[test]
fn raw_bytes_over_the_limit_are_a_protocol_fault() {
    let text = r#"{"id":$ID,"obs":{"$nd":["<u1",[],0,1]},"reward":1,"terminated":false,"raw":99999999}"#;
    protocol_fault(json!([["write", text]]), "99999999 raw bytes");
}

#[test]
fn an_answer_that_comes_twice_is_dropped_and_counted() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    let text = r#"{"id":$ID,"obs":3,"reward":1,"terminated":false}"#;
    let batch = agent.step(json!([[["write", text], ["write", text]]]), json!({}));
    assert_eq!(batch.column("obs"), json!([3.0]));
    let next = agent.step(json!([4]), json!({}));
    assert_eq!(next.column("obs"), json!([4.0]));
    let status = agent.status();
    assert_eq!(status["counters"]["late_replies"], 1);
}

#[test]
fn a_flood_of_stale_answers_ends_only_its_own_row() {
    let flood = json!([["flood", 1_000_000, "{\"id\":1}\n"]]);
    let (mut agent, _) = puppets(json!({}), 3, json!({}));
    let batch = agent.step(json!([4, flood, 5]), json!({}));
    assert_eq!(batch.column("obs"), json!([4.0, null, 5.0]));
    assert_eq!(batch.error(1)["kind"], "protocol");
}

#[test]
fn a_flood_on_standard_error_keeps_the_newest_64_kib() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let text = r#"{"id":$ID,"obs":3,"reward":1,"terminated":false}"#;
    let noise = "y".repeat(1 << 20);
    let batch = agent.step(json!([1, [["stderr", noise], ["stderr", "end\n"], ["write", text]]]), json!({}));
    assert_eq!(batch.column("obs"), json!([1.0, 3.0]));
    let log = agent.logs(1);
    assert_eq!(log.len(), 65536);
    assert!(log.ends_with("yyyend\n"));
}

#[test]
fn an_environment_that_never_reads_does_not_block_the_others() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"deadlines_ms": {"step": 300}}));
    // It never reads again, and the next line is larger than any socket's buffer.
    let answer = r#"{"id":$ID,"obs":3,"reward":1,"terminated":false}"#;
    agent.step(json!([1, [["write", answer], ["sleep", 60]]]), json!({}));
    let batch = agent.step(json!([4, "z".repeat(4 << 20)]), json!({}));
    assert_eq!(batch.column("obs"), json!([4.0, null]));
    assert_eq!(batch.error(1)["kind"], "timeout");
}
