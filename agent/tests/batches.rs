//! Numbers, selections, refusals and the order of batches.

mod harness;

use harness::{Batch, puppets};
use serde_json::{Value, json};

fn error(frame: harness::Frame) -> Value {
    assert_eq!(frame.head["ok"], false, "{}", frame.head);
    frame.head["error"].clone()
}

fn step_head(seq: u64) -> Value {
    json!({"op": "step", "seq": seq, "encoding": "json", "rows": null, "offset": 0, "actions": {"kind": "json"}})
}

#[test]
fn the_same_number_is_answered_with_the_same_reply_and_steps_once() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let first = agent.request(&step_head(1), br#"{"actions":[1,2]}"#);
    let binary = json!({"op": "step", "seq": 1, "encoding": "binary", "rows": null, "offset": 0,
        "actions": {"kind": "json"}});
    let again = agent.request(&binary, br#"{"actions":[7,7]}"#);
    assert_eq!((&first.head, &first.body), (&again.head, &again.body));
    let next = Batch::of(agent.request(&step_head(2), br#"{"actions":[3,4]}"#));
    assert_eq!(next.column("obs"), json!([3.0, 4.0]));
}

#[test]
fn a_number_out_of_order_is_refused_with_the_expected_one() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    for seq in [0, 2, 100] {
        let error = error(agent.request(&step_head(seq), br#"{"actions":[1]}"#));
        assert_eq!(error["code"], "pool_sequence");
        assert_eq!(error["details"], json!({"expected": 1, "received": seq}));
    }
    assert_eq!(agent.request(&step_head(1), br#"{"actions":[1]}"#).head["ok"], true);
}

#[test]
fn a_refused_batch_uses_up_its_number_and_touches_no_row() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let bodies: [&[u8]; 6] = [
        br#"{"actions":[1]}"#,
        br#"{"actions":5}"#,
        br#"{}"#,
        br#"{"actions":[1,]}"#,
        b"{\"actions\":[1,\"\xff\"]}",
        br#"{"actions":[1,2]"#,
    ];
    for (position, body) in bodies.iter().enumerate() {
        let error = error(agent.request(&step_head(position as u64 + 1), body));
        assert_eq!(error["code"], "invalid_request", "{}", String::from_utf8_lossy(body));
    }
    assert_eq!(agent.status()["rows"][0]["state"], "ready");
    let batch = Batch::of(agent.request(&step_head(7), br#"{"actions":[1,2]}"#));
    assert_eq!(batch.column("obs"), json!([1.0, 2.0]));
}

#[test]
fn rows_have_to_be_ascending_and_the_shards_own() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"n": 10, "first": 4}));
    for (position, rows) in [json!([5, 4]), json!([4, 4]), json!([3]), json!([6])].iter().enumerate() {
        let mut head = step_head(position as u64 + 1);
        head["rows"] = rows.clone();
        let error = error(agent.request(&head, br#"{"actions":[1,2]}"#));
        assert!(error["message"].as_str().expect("a message").contains("ascending numbers from 4 to 5"));
    }
}

#[test]
fn only_selected_rows_are_stepped_and_actions_start_at_the_offset() {
    let (mut agent, _) = puppets(json!({}), 4, json!({}));
    let batch = agent.step(json!([70, 71, 72, 73]), json!({"rows": [1, 3], "offset": 2}));
    assert_eq!(batch.column("obs"), json!([72.0, 73.0]));
    let observed = Batch::of(agent.request(&json!({"op": "observe", "encoding": "json"}), b""));
    assert_eq!(observed.column("obs"), json!([0.0, 72.0, 0.0, 73.0]));
    let empty = agent.step(json!([]), json!({"rows": []}));
    assert_eq!((&empty.head["rows"], empty.body.len()), (&json!(0), 0));
}

#[test]
fn status_and_logs_are_answered_during_a_batch_and_a_second_batch_is_refused() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    let text = r#"{"id":$ID,"obs":3,"reward":1,"terminated":false}"#;
    let body = json!({"actions": [[["sleep", 0.5], ["write", text]]]}).to_string();
    let batch = agent.send(&step_head(1), body.as_bytes());
    let status = agent.send(&json!({"op": "status", "memory": false}), b"");
    assert_eq!(agent.reply(status).head["rows"][0]["state"], "ready");
    let second = agent.send(&step_head(2), br#"{"actions":[1]}"#);
    assert_eq!(error(agent.reply(second))["code"], "pool_busy");
    assert_eq!(Batch::of(agent.reply(batch)).column("obs"), json!([3.0]));
}

#[test]
fn an_unknown_operation_is_answered_with_an_error() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    let error = error(agent.request(&json!({"op": "fly\u{1b}"}), b""));
    assert_eq!(error["code"], "invalid_request");
    assert!(error["message"].as_str().expect("a message").contains("fly\\u{1b}"));
}

#[test]
fn damage_on_the_channel_is_skipped_up_to_the_next_frame() {
    use std::io::Write;
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    agent.stream.write_all(b"garbage SPF1 more garbage that is no frame at all SPF").expect("garbage");
    assert_eq!(agent.status()["ok"], true);
}

#[test]
fn in_flight_bounds_the_rows_that_run_at_once() {
    let (mut agent, _) = puppets(json!({}), 4, json!({"in_flight": 2}));
    let folder = agent.folder.clone();
    let text = r#"{"id":$ID,"obs":3,"reward":1,"terminated":false}"#;
    // Each row fails if it finds the marks of two others: made when it begins, gone when it ends.
    let script = |row: usize| json!([["crowd", folder.join(format!("mark{row}")), folder, 2, 0.2], ["write", text]]);
    let batch = agent.step(json!([script(0), script(1), script(2), script(3)]), json!({}));
    assert_eq!(batch.column("obs"), json!([3.0, 3.0, 3.0, 3.0]));
}

#[test]
fn a_rows_clock_starts_when_its_line_is_written() {
    let (mut agent, _) = puppets(json!({}), 4, json!({"in_flight": 1, "deadlines_ms": {"step": 1500}}));
    let text = r#"{"id":$ID,"obs":3,"reward":1,"terminated":false}"#;
    let script = json!([["sleep", 0.5], ["write", text]]);
    let batch = agent.step(json!([script, script, script, script]), json!({}));
    assert_eq!(batch.head["failed"], json!([]), "four times 0.5 s one after another, each within its own 1.5 s");
}

#[test]
fn pretty_printed_actions_reach_a_row_as_one_line() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    let frame = agent.request(&step_head(1), b"{\n \"actions\": [\r\n {\"a\":\n [1.0,\n 2]}\n ]\n}");
    let batch = Batch::of(frame);
    assert_eq!(batch.column("infos")[0]["action"], r#"{"a": [1.0, 2]}"#);
}

#[test]
fn calls_reach_functions_and_attributes() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let batch = agent.call("render", json!({"args": [1.0], "kwargs": {"mode": "x"}}), json!({}));
    assert_eq!(batch.column("results")[1], json!({"name": "render", "args": [1.0], "kwargs": {"mode": "x"}}));
    assert_eq!(batch.text("infos"), "{},{}");
    let batch = agent.call("render", json!({}), json!({}));
    assert_eq!(batch.column("results")[0], json!({"name": "render", "args": [], "kwargs": {}}));
    for kind in ["get", "has", "wrapped"] {
        let batch = agent.call("gravity", json!({}), json!({"call": kind, "rows": [1]}));
        assert_eq!(batch.column("results"), json!([{"op": kind, "name": "gravity"}]));
    }
    let batch = agent.call("gravity", json!({"values": [9.8, 1.6]}), json!({"call": "set"}));
    assert_eq!(batch.column("results")[1], json!({"op": "set", "name": "gravity", "value": [9.8, 1.6]}));
    let batch =
        agent.call("gravity", json!({"values": [9.8, 1.6]}), json!({"call": "set", "per_row": true, "total": 2}));
    assert_eq!(batch.column("results")[1], json!({"op": "set", "name": "gravity", "value": 1.6}));
}

#[test]
fn a_call_that_raises_fails_alone_and_the_row_goes_on() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let batch = agent.call("boom", json!({}), json!({"rows": [1]}));
    assert_eq!(batch.head["failed"], json!([1]));
    assert_eq!(batch.column("results"), json!([null]));
    assert_eq!((&batch.error(0)["kind"], &batch.error(0)["op"]), (&json!("exception"), &json!("call")));
    assert_eq!(batch.error(0)["type"], "KeyError");
    assert_eq!(agent.step(json!([1, 2]), json!({})).column("obs"), json!([1.0, 2.0]));
}

#[test]
fn a_call_has_its_own_deadline() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    let batch = agent.call("play", json!({"args": [["sleep", 60]]}), json!({"deadline_ms": 200}));
    assert_eq!((&batch.error(0)["kind"], &batch.error(0)["deadline_s"]), (&json!("timeout"), &json!(0.2)));
}

#[test]
fn the_pools_own_operations_cannot_be_called() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    let head = json!({"op": "call", "seq": 1, "encoding": "json", "rows": null, "offset": 0, "call": "call",
        "name": "step"});
    assert_eq!(error(agent.request(&head, b"{}"))["code"], "invalid_request");
}
