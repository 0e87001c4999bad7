//! What a failure costs in a process with several rows: the row where that is possible, else all of its rows.

mod harness;

use harness::{Agent, batch_with, crews};
use serde_json::{Value, json};

fn play(script: Value) -> Value {
    json!({"play": script})
}

fn kinds(batch: &harness::Batch) -> Vec<Value> {
    (0..batch.head["rows"].as_u64().expect("rows") as usize).map(|slot| batch.error(slot)["kind"].clone()).collect()
}

/// What becomes of a message that one script answers, for four rows in two processes; the second one has to be served
/// all the same, and the first one has to be healed by a reset.
fn whole_fault(settings: Value, script: Value, changes: Value) -> Value {
    let (mut agent, _) = crews(settings, 4, 2, changes);
    let before = agent.status();
    let batch = agent.step(json!([1, play(script), 4, 5]), json!({}));
    assert_eq!(batch.head["failed"], json!([0, 1]), "{}", batch.text("infos"));
    assert_eq!(batch.column("rewards"), json!([0.0, 0.0, 4.0, 5.0]));
    assert_eq!(batch.column("obs")[0], Value::Null);
    let error = batch.error(0);
    assert_eq!((&batch.error(1)["kind"], &batch.error(1)["message"]), (&error["kind"], &error["message"]));
    assert_eq!(batch.column("truncated"), json!([true, true, false, false]));
    assert!(error["message"].as_str().expect("a message").ends_with("; rows 0 to 1 shared this process"), "{error}");
    let again = agent.step(json!([1, 2, 3, 4]), json!({}));
    assert_eq!((&again.error(0)["repeated"], &again.error(1)["repeated"]), (&json!(true), &json!(true)));
    let reset = agent.reset(json!({"rows": [0, 1]}));
    assert_eq!(reset.head["failed"], json!([]), "{}", reset.text("infos"));
    assert_eq!(agent.step(json!([1, 2, 3, 4]), json!({})).column("rewards"), json!([1.0, 2.0, 3.0, 4.0]));
    let after = agent.status();
    assert_ne!(before["rows"][0]["pid"], after["rows"][0]["pid"]);
    assert_eq!(before["rows"][2]["pid"], after["rows"][2]["pid"]);
    assert_eq!((&after["rows"][0]["replacements"], &after["rows"][1]["replacements"]), (&json!(1), &json!(1)));
    assert_eq!(after["counters"]["replacements"], 1, "one process was replaced");
    error
}

fn protocol_fault(script: Value, expected: &str) {
    let error = whole_fault(json!({}), script, json!({"max_message_bytes": 1 << 15}));
    assert_eq!(error["kind"], "protocol", "{error}");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains(expected), "{message} does not say {expected}");
}

/// A reply for two rows with members replaced.
fn reply(members: Value) -> String {
    let mut known = json!({"obs": [[1.0, 1.0], [2.0, 2.0]], "reward": [1, 2], "terminated": [false, false]});
    for (key, value) in members.as_object().expect("members") {
        known[key] = value.clone();
        if value == "absent" {
            known.as_object_mut().expect("an object").remove(key);
        }
    }
    known.to_string().replacen('{', r#"{"id":$ID,"#, 1)
}

fn wrong_reply(members: Value, expected: &str) {
    protocol_fault(json!([["write", reply(members)]]), expected);
}

#[test]
fn a_process_that_exits_takes_all_its_rows_with_it() {
    let error = whole_fault(json!({}), json!([["stderr", "out of luck\n"], ["exit", 7]]), json!({}));
    assert_eq!((&error["kind"], &error["exit_code"], &error["op"]), (&json!("crash"), &json!(7), &json!("step")));
    assert_eq!(error["stderr_tail"], "out of luck\n");
}

#[test]
fn a_fork_that_is_killed_takes_all_its_rows_with_it() {
    let error = whole_fault(json!({"template": true}), json!([["kill", 9]]), json!({"way": "fork"}));
    assert_eq!((&error["kind"], &error["signal"]), (&json!("crash"), &json!(9)));
}

#[test]
fn a_message_without_an_answer_is_a_timeout_of_all_its_rows() {
    let error = whole_fault(json!({}), json!([["sleep", 60]]), json!({"deadlines_ms": {"step": 300}}));
    assert_eq!((&error["kind"], &error["deadline_s"]), (&json!("timeout"), &json!(0.3)));
}

#[test]
fn a_line_over_the_limit_of_all_rows_is_a_protocol_fault() {
    let text = "x".repeat(1000);
    protocol_fault(json!([["flood", 1, text], ["sleep", 60]]), "more than 65536 bytes");
}

#[test]
fn text_that_is_no_json_and_ids_that_are_wrong_are_protocol_faults_of_the_process() {
    protocol_fault(json!([["write", "Segmentation fault (just kidding)"]]), "no JSON object");
    protocol_fault(json!([["write", r#"{"id":999}"#]]), "the id 999");
    protocol_fault(json!([["write", r#"{"obs":[]}"#]]), "without an id");
}

#[test]
fn columns_of_another_length_are_protocol_faults_of_the_process() {
    wrong_reply(json!({"obs": [[1.0, 1.0]]}), "\"obs\"");
    wrong_reply(
        json!({"obs": {"$nd": ["<f4", [3, 2], "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]}}),
        "shape [3, 2], expected 2 of [2]",
    );
    wrong_reply(json!({"obs": {"$nd": ["<f4", [2, 1], "AAAAAAAAAAA="]}}), "shape [2, 1], expected 2 of [2]");
    wrong_reply(json!({"reward": [1, 2, 3]}), "expected a list of 2");
    wrong_reply(json!({"reward": {"$nd": ["<f8", [1], "AAAAAAAAAAA="]}}), "\"reward\" of the shape [1], expected [2]");
    wrong_reply(json!({"terminated": [true]}), "expected a list of 2");
    wrong_reply(json!({"terminated": {"$nd": ["|b1", [3], "AAAA"]}}), "expected [2]");
    wrong_reply(json!({"truncated": {}}), "\"truncated\"");
    wrong_reply(json!({"infos": [{}]}), "expected a list of 2");
}

#[test]
fn columns_of_another_type_are_protocol_faults_of_the_process() {
    wrong_reply(
        json!({"obs": {"$nd": ["<c8", [2, 2], "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]}}),
        "does not cast",
    );
    wrong_reply(json!({"obs": {"$nd": ["<f4", [2, 2], 0, 16]}}), "0 raw bytes");
    wrong_reply(json!({"obs": {"$nd": ["<f4", [2, 2], "AAAAAAAAAAAAAAAA!AAAAA=="]}}), "base64");
    wrong_reply(json!({"reward": ["much", 1]}), "expected a number");
    wrong_reply(json!({"reward": {"$nd": ["<c8", [2], "AAAAAAAAAAAAAAAAAAAAAA=="]}}), "expected <f8");
    wrong_reply(json!({"terminated": [1, 0]}), "expected true or false");
    wrong_reply(json!({"terminated": {"$nd": ["<f8", [2], "AAAAAAAAAAAAAAAAAAAAAA=="]}}), "expected |b1");
    wrong_reply(json!({"infos": "nothing"}), "expected an object by row");
    wrong_reply(json!({"infos": {"x": {}}}), "the number of a row");
    wrong_reply(json!({"infos": {"0": 7}}), "expected an object");
}

#[test]
fn members_that_are_missing_are_protocol_faults_of_the_process() {
    for name in ["obs", "reward", "terminated"] {
        wrong_reply(json!({name: "absent"}), &format!("no \"{name}\""));
    }
}

#[test]
fn rows_that_were_not_asked_cannot_be_answered_for() {
    wrong_reply(json!({"errors": {"2": {"kind": "exception"}}}), "row 2 in \"errors\"");
    wrong_reply(json!({"infos": {"9": {"a": 1}}}), "row 9 in \"infos\"");
}

#[test]
fn a_row_that_raises_fails_alone_and_its_process_goes_on() {
    for (kind, terminated) in [("exception", true), ("oom", false), ("timeout", false), ("protocol", false)] {
        for settings in [json!({"raw": true}), json!({"lists": true, "form": "list"})] {
            let (mut agent, _) = crews(settings, 4, 4, json!({"deadlines_ms": {"step": 30000}}));
            let pid = agent.status()["rows"][0]["pid"].clone();
            let batch = agent.step(json!([1, {"fail": kind}, 3, {"fail": kind}]), json!({}));
            assert_eq!(batch.head["failed"], json!([1, 3]));
            assert_eq!(batch.column("rewards"), json!([1.0, 0.0, 3.0, 0.0]));
            assert_eq!(batch.column("terminated"), json!([false, terminated, false, terminated]));
            assert_eq!(batch.column("obs")[3], Value::Null);
            let error = batch.error(1);
            assert_eq!((&error["kind"], &error["type"]), (&json!(kind), &json!("FailureError")));
            assert_eq!(batch.head["stragglers"], if kind == "timeout" { json!([1, 3]) } else { json!([]) });
            if kind == "timeout" {
                assert_eq!(error["deadline_s"], 30.0);
            }
            let again = agent.step(json!([1, 1, 1, 1]), json!({}));
            assert_eq!((&again.head["failed"], &again.error(1)["repeated"]), (&json!([1, 3]), &json!(true)));
            let reset = agent.reset(json!({"rows": [1, 3]}));
            assert_eq!(reset.column("infos")[0]["object"], 1, "a new object");
            let healed = agent.step(json!([1, 2, 3, 4]), json!({}));
            assert_eq!(healed.column("rewards"), json!([1.0, 2.0, 3.0, 4.0]));
            assert_eq!(agent.status()["rows"][0]["pid"], pid, "{kind}");
        }
    }
}

#[test]
fn a_failed_rows_last_good_observation_is_kept_and_its_places_hold_anything() {
    let (mut agent, _) = crews(json!({}), 3, 3, json!({}));
    agent.step(json!([1, 2, 3]), json!({}));
    let text = r#"{"id":$ID,"obs":{"$nd":["<f4",[3,2],"AACAPwAAgD8AAIA/AACAPwAAgD8AAIA/"]},"reward":[5,null,7],
        "terminated":[false,null,true],"errors":{"1":{"kind":"exception","message":"bad"}}}"#
        .replace('\n', "");
    let batch = agent.step(json!([play(json!([["write", text]])), 1, 1]), json!({}));
    assert_eq!(batch.column("rewards"), json!([5.0, 0.0, 7.0]));
    assert_eq!(batch.column("terminated"), json!([false, true, true]));
    let observed = harness::Batch::of(agent.request(&json!({"op": "observe", "encoding": "json"}), b""));
    assert_eq!(observed.column("obs"), json!([[1.0, 1.0], [2.0, 1.0], [1.0, 1.0]]));
}

#[test]
fn an_observation_of_a_list_that_does_not_fit_is_its_rows_fault() {
    let (mut agent, _) = crews(json!({"form": "plain"}), 3, 3, json!({}));
    let text = r#"{"id":$ID,"obs":[[1,1],[2],[3,3]],"reward":[1,2,3],"terminated":[false,false,false]}"#;
    let batch = agent.step(json!([play(json!([["write", text]])), 1, 1]), json!({}));
    assert_eq!(batch.head["failed"], json!([1]));
    assert_eq!((&batch.error(1)["kind"], batch.column("obs")[2].clone()), (&json!("protocol"), json!([3.0, 3.0])));
    assert_eq!(agent.reset(json!({"rows": [1]})).head["failed"], json!([]));
}

#[test]
fn an_error_of_the_whole_message_fails_its_rows_alone() {
    let (mut agent, _) = crews(json!({}), 3, 3, json!({}));
    let pid = agent.status()["rows"][0]["pid"].clone();
    let text = r#"{"id":$ID,"error":{"kind":"exception","type":"ValueError","message":"bad","traceback":"tb"}}"#;
    let batch = agent.step(json!([play(json!([["write", text]])), 1]), json!({"rows": [0, 2]}));
    assert_eq!(kinds(&batch), [json!("exception"), json!("exception")]);
    assert_eq!(batch.error(1)["traceback"], "tb");
    let next = agent.step(json!([1, 7, 1]), json!({}));
    assert_eq!((&next.head["failed"], next.column("rewards")[1].clone()), (&json!([0, 2]), json!(7.0)));
    assert_eq!(agent.status()["rows"][0]["pid"], pid);
}

#[test]
fn a_whole_message_without_memory_ends_the_process() {
    let text = r#"{"id":$ID,"error":{"kind":"oom","type":"MemoryError","message":"out of memory","traceback":null}}"#;
    assert_eq!(whole_fault(json!({}), json!([["write", text]]), json!({}))["kind"], "oom");
}

#[test]
fn rows_that_were_not_asked_show_the_loss_of_their_process_to_the_next_batch() {
    let (mut agent, _) = crews(json!({}), 4, 2, json!({}));
    let batch = agent.step(json!([play(json!([["exit", 3]])), 1]), json!({"rows": [0, 2]}));
    assert_eq!(batch.head["failed"], json!([0]));
    let next = agent.step(json!([1, 1, 1, 1]), json!({}));
    assert_eq!(next.head["failed"], json!([0, 1]));
    assert_eq!((&next.error(0)["repeated"], &next.error(1)["repeated"]), (&json!(true), &Value::Null));
    assert_eq!((&next.error(1)["op"], &next.error(1)["exit_code"]), (&json!("idle"), &json!(3)));
}

#[test]
fn answers_to_what_was_answered_before_are_dropped_and_counted() {
    let (mut agent, _) = crews(json!({}), 2, 2, json!({}));
    let text = reply(json!({}));
    let batch = agent.step(json!([play(json!([["write", text], ["write", text]])), 1]), json!({}));
    assert_eq!(batch.column("rewards"), json!([1.0, 2.0]));
    assert_eq!(agent.step(json!([3, 4]), json!({})).column("rewards"), json!([3.0, 4.0]));
    agent.await_status(|status| status["counters"]["late_replies"] == 1);
}

#[test]
fn with_autoreset_failed_rows_of_a_process_are_reset_once_their_error_was_shown() {
    for mode in ["same_step", "next_step"] {
        let (mut agent, _) = crews(json!({}), 3, 3, json!({"autoreset": mode}));
        agent.step(json!([1, {"fail": "exception"}, 1]), json!({}));
        let batch = agent.step(json!([5, 6, 7]), json!({}));
        assert_eq!(batch.head["failed"], json!([]), "{mode}: {}", batch.text("infos"));
        assert_eq!(batch.column("rewards"), json!([5.0, 0.0, 7.0]));
        assert_eq!(batch.column("infos")[1]["object"], 1);
        let batch = agent.step(json!([1, play(json!([["exit", 4]])), 1]), json!({}));
        assert_eq!(batch.head["failed"], json!([0, 1, 2]), "{mode}");
        let mut batch = agent.step(json!([1, 2, 3]), json!({}));
        while batch.head["failed"] != json!([]) {
            batch = agent.step(json!([1, 2, 3]), json!({}));
        }
        assert_eq!(batch.column("rewards"), json!([0.0, 0.0, 0.0]));
        assert_eq!(agent.step(json!([1, 2, 3]), json!({})).column("rewards"), json!([1.0, 2.0, 3.0]));
    }
}

#[test]
fn a_process_that_ends_in_the_reset_of_a_step_fails_the_rows_that_waited_for_it() {
    let (mut agent, _) = crews(json!({"form": "list", "lists": true}), 3, 3, json!({"autoreset": "same_step"}));
    // The second message of the batch, the reset of the row that was done, finds no process.
    let text = r#"{"id":$ID,"obs":[{"a":1},{"a":2},{"a":3}],"reward":[1,2,3],"terminated":[false,true,false]}"#;
    let batch = agent.step(json!([play(json!([["write", text], ["exit", 5]])), 1, 1]), json!({}));
    assert_eq!(batch.column("rewards"), json!([1.0, 2.0, 3.0]));
    assert_eq!(batch.column("terminated"), json!([false, true, false]));
    assert_eq!(batch.head["failed"], json!([1]));
    assert_eq!((&batch.error(1)["op"], &batch.error(1)["exit_code"]), (&json!("reset"), &json!(5)));
    assert_eq!(batch.column("infos")[1]["final_obs"], json!({"a": 2}));
    let next = agent.step(json!([1, 1, 1]), json!({}));
    assert!(next.error(0)["repeated"].is_null() && next.error(0)["kind"] == "crash", "{}", next.text("infos"));
}

#[test]
fn an_exception_in_reset_is_the_rows_error_and_the_others_go_on() {
    let (mut agent, _) = crews(json!({}), 3, 3, json!({}));
    let body = br#"{"options":[null,{"fail":"exception"},null]}"#;
    let batch = batch_with(&mut agent, "reset", json!({"total": 3}), body);
    assert_eq!(batch.head["failed"], json!([1]));
    assert_eq!((&batch.error(1)["op"], &batch.error(1)["kind"]), (&json!("reset"), &json!("exception")));
    assert_eq!(agent.step(json!([1, 2, 3]), json!({})).column("rewards"), json!([1.0, 0.0, 3.0]));
    assert_eq!(agent.reset(json!({"rows": [1]})).head["failed"], json!([]));
}

#[test]
fn a_reset_without_an_answer_is_a_timeout_of_all_its_rows() {
    let (mut agent, _) = crews(json!({}), 2, 2, json!({"deadlines_ms": {"reset": 1500}}));
    let mark = agent.folder.join("mark");
    let body = json!({"options": {"play": [["once", mark], ["sleep", 60]]}}).to_string();
    let batch = batch_with(&mut agent, "reset", json!({"total": 2}), body.as_bytes());
    assert_eq!(kinds(&batch), [json!("timeout"), json!("timeout")]);
    assert_eq!(batch.head["stragglers"], json!([0, 1]));
    assert_eq!(agent.reset(json!({})).head["failed"], json!([]));
}

#[test]
fn a_call_that_raises_in_one_row_fails_there_and_the_row_goes_on() {
    let (mut agent, _) = crews(json!({}), 3, 3, json!({}));
    let batch = agent.call("boom", json!({}), json!({}));
    assert_eq!((&batch.head["failed"], &batch.error(2)["kind"]), (&json!([2]), &json!("exception")));
    assert_eq!(batch.column("results")[1]["row"], 1);
    assert_eq!(agent.step(json!([1, 2, 3]), json!({})).column("rewards"), json!([1.0, 2.0, 3.0]));
    let batch = agent.call("boom", json!({"kwargs": {"kind": "timeout"}}), json!({}));
    assert_eq!((&batch.head["failed"], &batch.head["stragglers"]), (&json!([2]), &json!([2])));
    assert_eq!(
        agent.step(json!([1, 2, 3]), json!({})).head["failed"],
        json!([2]),
        "a row that was cut off is to be reset"
    );
}

#[test]
fn results_of_another_length_are_a_protocol_fault_of_the_process() {
    let (mut agent, _) = crews(json!({}), 2, 2, json!({}));
    let script = json!({"args": [play(json!([["write", r#"{"id":$ID,"results":[1]}"#]]))]});
    let batch = agent.call("render", script, json!({}));
    assert_eq!(kinds(&batch), [json!("protocol"), json!("protocol")]);
}

#[test]
fn a_process_that_cannot_be_replaced_loses_all_its_rows_until_a_hard_reset() {
    let mark = std::env::temp_dir().join(format!("sandpool-agent-test-dies-{}", std::process::id()));
    let (mut agent, _) = crews(json!({"dies_if": mark}), 2, 2, json!({}));
    std::fs::write(&mark, b"").expect("a mark");
    agent.step(json!([play(json!([["exit", 1]])), 1]), json!({}));
    agent.await_status(|status| status["rows"][0]["state"] == "lost" && status["rows"][1]["state"] == "lost");
    let batch = agent.reset(json!({}));
    assert_eq!(kinds(&batch), [json!("lost"), json!("lost")]);
    assert!(
        batch.error(1)["message"].as_str().expect("a message").contains("rows 0 to 1 shared"),
        "{}",
        batch.error(1)
    );
    std::fs::remove_file(&mark).expect("no mark");
    assert_eq!(agent.reset(json!({"rows": [0], "hard": true})).head["failed"], json!([]));
    assert_eq!(agent.step(json!([1, 2]), json!({})).head["failed"], json!([1]), "until its own reset");
    assert_eq!(agent.reset(json!({"rows": [1]})).head["failed"], json!([]), "the process is there again");
    assert_eq!(agent.step(json!([1, 2]), json!({})).column("rewards"), json!([1.0, 2.0]));
}

#[test]
fn a_process_that_announces_another_number_of_rows_fails_the_start() {
    let mut agent = Agent::new();
    let path = harness::program("crew.py");
    let settings = json!({"lying_rows": 3}).to_string();
    let head = agent.start_head(&harness::python(&path, &[&settings]), 4, json!({"rows_per_process": 2}));
    let error = agent.request(&head, b"{}").head["error"].clone();
    assert_eq!(error["code"], "environment_failed", "{error}");
    assert!(error["message"].as_str().expect("a message").contains("expected 2"), "{error}");
}

#[test]
fn a_fault_in_the_first_reset_of_a_row_fails_the_start_and_names_the_row() {
    let (_agent, started) = harness::try_crews(json!({"fails": 3}), 4, json!(2), json!({}));
    assert_eq!(started["error"]["code"], "environment_failed", "{started}");
    assert_eq!((&started["error"]["details"]["row"], &started["error"]["details"]["op"]), (&json!(3), &json!("reset")));
}

#[test]
fn logs_and_memory_are_those_of_the_process() {
    let (mut agent, _) = crews(json!({"form": "list", "lists": true}), 2, 2, json!({}));
    let text = r#"{"id":$ID,"obs":[1,2],"reward":[1,2],"terminated":[false,false]}"#;
    agent.step(json!([play(json!([["stderr", "shared\n"], ["write", text]])), 1]), json!({}));
    assert_eq!((agent.logs(0), agent.logs(1)), ("shared\n".to_owned(), "shared\n".to_owned()));
    let status = agent.request(&json!({"op": "status", "memory": true}), b"").head;
    let bytes = |row: usize| status["rows"][row]["pss_bytes"].as_u64().expect("bytes");
    assert!(bytes(0) > 0 && bytes(0) == bytes(1), "{status}");
}
