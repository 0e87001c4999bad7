//! Rows that do not wait for each other: order, refusals, and what goes on meanwhile.

mod harness;

use harness::stream::{RowResult, send_head};
use harness::{Agent, Batch, puppets};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const ANSWER: &str = r#"{"id":$ID,"obs":7,"reward":1,"terminated":false}"#;

/// An action that is answered once the file is there.
fn held(file: &Path) -> Value {
    json!([["await", file], ["write", ANSWER]])
}

fn release(file: &Path) {
    std::fs::write(file, "").expect("the file");
}

fn gate(agent: &Agent) -> PathBuf {
    agent.folder.join("gate")
}

fn code(agent: &mut Agent, head: &Value, body: &[u8]) -> Value {
    let reply = agent.request(head, body);
    assert_eq!(reply.head["ok"], false, "{}", reply.head);
    reply.head["error"].clone()
}

fn step_head(rows: Value) -> Value {
    send_head(&json!({"kind": "step", "rows": rows, "actions": {"kind": "json"}}))
}

fn by_row(mut results: Vec<RowResult>) -> Vec<RowResult> {
    results.sort_by_key(|result| result.row);
    results
}

#[test]
fn a_result_has_the_columns_of_a_step_for_its_rows() {
    let (mut agent, _) = puppets(json!({}), 3, json!({"n": 9, "first": 4}));
    agent.send_step(json!([4, 6]), json!([9, 2.5]));
    let results = by_row(agent.receive(2));
    let expected = |row: u64, value: f64, terminated: bool| RowResult {
        row,
        op: "step".to_owned(),
        obs: json!(value),
        reward: value,
        terminated,
        truncated: false,
        info: json!({}),
        failed: false,
    };
    assert_eq!(results, [expected(4, 9.0, true), expected(6, 2.5, false)]);
}

#[test]
fn a_slow_row_never_holds_the_others_and_results_come_in_the_order_of_the_end() {
    let (mut agent, _) = puppets(json!({}), 3, json!({}));
    let gate = gate(&agent);
    agent.send_step(json!([0, 1, 2]), json!([held(&gate), 1, 2]));
    let first = by_row(agent.receive(2));
    assert_eq!(first.iter().map(|result| result.row).collect::<Vec<_>>(), [1, 2]);
    for action in 10..40 {
        agent.send_step(json!([1]), json!([action]));
        let result = agent.receive(1).remove(0);
        assert_eq!((result.row, result.obs), (1, json!(f64::from(action))));
    }
    release(&gate);
    let last = agent.receive(1).remove(0);
    assert_eq!((last.row, last.obs), (0, json!(7.0)));
}

#[test]
fn many_messages_may_be_out_each_with_its_own_bytes() {
    let (mut agent, _) = puppets(json!({}), 8, json!({"in_flight": 1}));
    let gate = gate(&agent);
    agent.send_step(json!([7]), json!([held(&gate)]));
    // One row runs at a time: these are written long after the next message has come.
    for row in 0..7 {
        agent.send_step(json!([row]), json!([row + 100]));
    }
    release(&gate);
    let results = agent.receive(8);
    let order: Vec<u64> = results.iter().map(|result| result.row).collect();
    assert_eq!(order, [7, 0, 1, 2, 3, 4, 5, 6], "rows go on in the order of their messages");
    for result in &results[1..] {
        assert_eq!(result.reward, (result.row + 100) as f64);
    }
}

#[test]
fn actions_start_at_the_offset_and_an_array_is_one_buffer() {
    let (mut agent, _) = puppets(json!({}), 3, json!({}));
    let changes = json!({"kind": "step", "rows": [0, 2], "offset": 2, "total": 5, "actions": {"kind": "json"}});
    agent.send_off(changes, br#"{"actions":[1,2,3,4,5]}"#);
    assert_eq!(by_row(agent.receive(2)).iter().map(|result| result.reward).collect::<Vec<_>>(), [3.0, 4.0]);
    let actions: Vec<u8> = [21i64, 22].iter().flat_map(|action| action.to_le_bytes()).collect();
    let changes = json!({"kind": "step", "rows": [0, 1], "actions": {"kind": "array", "dtype": "<i8", "shape": []}});
    agent.send_off(changes, &actions);
    assert_eq!(by_row(agent.receive(2)).iter().map(|result| result.reward).collect::<Vec<_>>(), [21.0, 22.0]);
}

#[test]
fn every_row_is_meant_by_null_and_nothing_by_an_empty_list() {
    let (mut agent, _) = puppets(json!({}), 3, json!({}));
    agent.send_step(json!([]), json!([]));
    agent.send_step(Value::Null, json!([1, 2, 3]));
    assert_eq!(agent.receive(3).len(), 3);
    assert_eq!(agent.step(json!([4, 5, 6]), json!({})).column("obs"), json!([4.0, 5.0, 6.0]));
}

#[test]
fn an_event_is_written_in_the_encoding_of_its_message() {
    let (mut agent, _) = puppets(json!({}), 3, json!({}));
    agent.send_off(
        json!({"kind": "step", "rows": [0, 2], "encoding": "binary", "actions": {"kind": "json"}}),
        br#"{"actions":[9,[["exit",3]]]}"#,
    );
    agent.send_step(json!([1]), json!([5]));
    let mut told: Vec<u64> = Vec::new();
    while told.len() < 3 {
        let results = agent.results();
        let rows: Vec<u64> = serde_json::from_value(results.batch.head["rows"].clone()).expect("rows");
        told.extend(&rows);
        if rows == [1] {
            assert_eq!(results.batch.head["encoding"], "json");
            assert_eq!(results.batch.column("obs"), json!([5.0]));
            continue;
        }
        assert_eq!(results.batch.head["encoding"], "binary");
        for (place, row) in rows.iter().enumerate() {
            let number = |name, field| {
                let bytes = &results.batch.bytes(name, field)[place * 8..][..8];
                f64::from_le_bytes(bytes.try_into().expect("eight bytes"))
            };
            let expected = if *row == 0 { 9.0 } else { 0.0 };
            assert_eq!((number("obs", Some(0)), number("rewards", None)), (expected, expected));
            assert_eq!(results.batch.bytes("terminated", None)[place], u8::from(*row == 0));
            assert_eq!(results.batch.bytes("truncated", None)[place], u8::from(*row == 2));
        }
        let infos = results.batch.text("infos");
        assert_eq!(infos.starts_with(r#""2":{"sandpool_error":{"kind":"crash""#), rows.contains(&2), "{infos}");
    }
}

#[test]
fn a_list_pools_results_are_values() {
    let (mut agent, start) = puppets(json!({"obs": {"text": "start"}}), 2, json!({}));
    assert_eq!(start["layout"]["kind"], "list");
    let text = r#"{"id":$ID,"obs":{"a":{"$nd":["|u1",[2],"AQI="]}},"reward":1,"terminated":false}"#;
    agent.send_step(json!([0, 1]), json!([[["write", text]], [["exit", 1]]]));
    let results = by_row(agent.receive(2));
    assert_eq!((&results[0].obs, &results[1].obs), (&json!({"a": [1, 2]}), &Value::Null));
    agent.send_off(
        json!({"kind": "step", "rows": [0], "encoding": "binary", "actions": {"kind": "json"}}),
        json!({"actions": [[["write", text]]]}).to_string().as_bytes(),
    );
    let results = agent.results();
    assert_eq!(results.batch.text("obs"), r#"{"a":{"$nd":["|u1",[2],"AQI="]}}"#);
}

#[test]
fn a_batch_while_rows_are_out_is_busy_and_says_how_many() {
    let (mut agent, _) = puppets(json!({}), 3, json!({}));
    let gate = gate(&agent);
    agent.send_step(json!([0, 2]), json!([held(&gate), held(&gate)]));
    for op in ["step", "reset", "call"] {
        let head = json!({"op": op, "seq": 1, "encoding": "json", "rows": [1], "offset": 0, "call": "get", "name": "x",
            "actions": {"kind": "json"}});
        let error = code(&mut agent, &head, br#"{"actions":[1]}"#);
        assert_eq!((&error["code"], &error["details"]), (&json!("pool_busy"), &json!({"out": 2})));
    }
    release(&gate);
    agent.receive(2);
    let batch = agent.step(json!([1, 2, 3]), json!({}));
    assert_eq!(batch.head["seq"], 1, "the refusal used up no number");
}

#[test]
fn a_message_while_a_batch_runs_is_busy() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let gate = gate(&agent);
    let seq = agent.next_seq();
    let head = json!({"op": "step", "seq": seq, "encoding": "json", "rows": [0], "offset": 0,
        "actions": {"kind": "json"}});
    let batch = agent.send(&head, json!({"actions": [held(&gate)]}).to_string().as_bytes());
    let send = agent.send(&step_head(json!([1])), br#"{"actions":[1]}"#);
    assert_eq!(agent.reply(send).head["error"]["code"], "pool_busy");
    release(&gate);
    assert_eq!(Batch::of(agent.reply(batch)).column("obs"), json!([7.0]));
    agent.send_step(json!([1]), json!([3]));
    assert_eq!(agent.receive(1)[0].obs, 3.0);
}

#[test]
fn a_row_has_at_most_one_thing_out_and_a_refused_message_sends_nothing() {
    let (mut agent, _) = puppets(json!({}), 3, json!({}));
    let gate = gate(&agent);
    agent.send_step(json!([1]), json!([held(&gate)]));
    let error = code(&mut agent, &step_head(json!([0, 1, 2])), br#"{"actions":[1,2,3]}"#);
    assert_eq!((&error["code"], &error["details"]), (&json!("invalid_request"), &json!({"out": [1]})));
    let kind_unknown = send_head(&json!({"kind": "fly", "rows": [0]}));
    let two_seeds = send_head(&json!({"kind": "reset", "rows": [0], "seeds": [1, 2], "seed": 5}));
    let refused: [(&Value, &[u8]); 6] = [
        (&step_head(json!([0, 2])), br#"{"actions":[1]}"#),
        (&step_head(json!([0])), br#"{"actions":[1}"#),
        (&step_head(json!([2, 0])), br#"{"actions":[1,2]}"#),
        (&step_head(json!([0, 0])), br#"{"actions":[1,2]}"#),
        (&kind_unknown, b"{}"),
        (&two_seeds, b"{}"),
    ];
    for (head, body) in refused {
        assert_eq!(code(&mut agent, head, body)["code"], "invalid_request", "{head}");
    }
    // Had any of them been noted, rows 0 and 2 would be out now.
    agent.send_step(json!([0, 2]), json!([10, 12]));
    assert_eq!(by_row(agent.receive(2)).iter().map(|result| result.reward).collect::<Vec<_>>(), [10.0, 12.0]);
    release(&gate);
    assert_eq!(agent.receive(1)[0].row, 1);
}

#[test]
fn nothing_is_sent_before_the_layout() {
    let mut agent = Agent::new();
    let argv = harness::puppet(json!({}));
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let start = agent.start_head(&argv, 1, json!({}));
    assert_eq!(agent.request(&start, b"{}").head["ok"], true);
    assert_eq!(code(&mut agent, &step_head(json!([0])), br#"{"actions":[1]}"#)["code"], "conflict");
}

#[test]
fn observe_status_and_logs_work_while_rows_are_out() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let gate = gate(&agent);
    agent.send_step(json!([0, 1]), json!([[["stderr", "so far\n"], ["await", gate], ["write", ANSWER]], 4]));
    assert_eq!(agent.receive(1)[0].row, 1);
    let observed = Batch::of(agent.request(&json!({"op": "observe", "encoding": "json"}), b""));
    assert_eq!(observed.column("obs"), json!([0.0, 4.0]), "what came on the stream is seen");
    assert_eq!(observed.column("infos")[0]["options"], Value::Null, "the info of the last reset");
    let status = agent.request(&json!({"op": "status", "memory": true}), b"").head;
    assert_eq!(status["rows"][0]["state"], "ready");
    while agent.logs(0) != "so far\n" {}
    release(&gate);
    agent.receive(1);
}

#[test]
fn close_gives_up_what_is_out() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"deadlines_ms": {"close": 300}}));
    agent.send_step(json!([0, 1]), json!([1, [["sleep", 60]]]));
    assert_eq!(agent.receive(1)[0].row, 0);
    assert_eq!(agent.request(&json!({"op": "close"}), b"").head, json!({"ok": true}));
    assert!(agent.process.wait().expect("an exit").success());
    assert_eq!(agent.results.len(), 0);
}

#[test]
fn the_end_of_the_channel_ends_rows_that_are_out() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let pids: Vec<Value> =
        agent.status()["rows"].as_array().expect("rows").iter().map(|row| row["pid"].clone()).collect();
    agent.send_step(json!([0, 1]), json!([[["sleep", 60]], [["sleep", 60]]]));
    agent.stream.shutdown(std::net::Shutdown::Both).expect("a shutdown");
    assert!(agent.process.wait().expect("an exit").success());
    for pid in pids {
        let began = std::time::Instant::now();
        let runs = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"));
        while runs() {
            assert!(began.elapsed().as_secs() < 20, "process {pid} is still there");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn results_wait_for_a_worker_that_does_not_read() {
    let (mut agent, _) = puppets(json!({"zeros": 20_000}), 4, json!({}));
    let answer = format!(r#"{{"id":$ID,"obs":[{}0],"reward":1,"terminated":false}}"#, "0,".repeat(19_999));
    let script = json!([["write", answer], ["stderr", "written\n"]]);
    let sent = agent
        .send(&step_head(Value::Null), json!({"actions": [script, script, script, script]}).to_string().as_bytes());
    // More than the socket holds; the agent goes on serving its rows meanwhile.
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(agent.reply(sent).head["ok"], true);
    for result in agent.receive(4) {
        assert_eq!(result.obs.as_array().map(Vec::len), Some(20_000));
    }
}
