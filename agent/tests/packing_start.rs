//! How many rows a process has: given, measured, or not possible.

mod harness;

use harness::{Agent, Frame, program, puppet, python, try_crews};
use serde_json::{Value, json};

/// An agent that was sent a start without a number of rows, and the number of that frame.
fn undecided(argv: &[&str], count: u32, changes: Value) -> (Agent, u32) {
    let mut agent = Agent::new();
    let mut head = agent.start_head(argv, count, changes);
    head["rows_per_process"] = Value::Null;
    let start = agent.send(&head, b"{}");
    (agent, start)
}

fn crew(settings: Value, count: u32, changes: Value) -> (Agent, u32) {
    undecided(&python(&program("crew.py"), &[&settings.to_string()]), count, changes)
}

/// The event of that name; whatever comes before it has to be an event too.
fn event(agent: &mut Agent, name: &str) -> Value {
    loop {
        let frame = agent.frame().expect("a frame");
        assert_eq!(frame.sequence, 0, "an event: {}", frame.head);
        if frame.head["event"] == name {
            return frame.head;
        }
    }
}

/// The reply to `pack`, then that of the start.
fn packed(agent: &mut Agent, start: u32, rows_per_process: u32) -> Frame {
    let pack = agent.send(&json!({"op": "pack", "rows_per_process": rows_per_process}), b"");
    assert_eq!(agent.reply(pack).head, json!({"ok": true}));
    agent.reply(start)
}

#[test]
fn a_probe_is_measured_and_the_worker_chooses() {
    for way in ["fork", "spawn"] {
        let settings = json!({"template": way == "fork", "raw": true});
        let (mut agent, start) = crew(settings, 5, json!({"way": way, "measure": true}));
        let measured = event(&mut agent, "measured");
        assert_eq!(measured, json!({"event": "measured", "step_us": 4.5, "reason": null, "packable": true}));
        let started = packed(&mut agent, start, 3).head;
        assert_eq!((&started["ok"], &started["rows_per_process"]), (&json!(true), &json!(3)), "{started}");
        agent.request(&json!({"op": "layout", "layout": started["layout"]}), b"");
        assert_eq!(agent.step(json!([1, 2, 3, 4, 5]), json!({})).column("rewards"), json!([1.0, 2.0, 3.0, 4.0, 5.0]));
        let status = agent.status();
        assert_eq!(status["rows"][0]["pid"], status["rows"][2]["pid"]);
        assert_eq!((&status["rows"][0]["episode"], &status["rows"][0]["replacements"]), (&json!(1), &json!(0)));
    }
}

#[test]
fn a_vectorised_environment_is_measured_in_its_own_messages() {
    let settings = json!({"vector": {"class": "CrewVector", "autoreset": null}});
    let (mut agent, start) = crew(settings, 4, json!({"measure": true}));
    assert_eq!(event(&mut agent, "measured")["step_us"], 4.5);
    assert_eq!(packed(&mut agent, start, 4).head["ok"], true);
}

#[test]
fn an_agent_that_does_not_measure_waits_for_the_choice() {
    let (mut agent, start) = crew(json!({"template": true}), 4, json!({"way": "auto"}));
    let started = packed(&mut agent, start, 2).head;
    assert_eq!((&started["way"], &started["hello"]["rows"]), (&json!("fork"), &json!(2)));
}

#[test]
fn a_program_without_the_feature_is_not_measured_and_gets_one_row_a_process() {
    let argv = puppet(json!({}));
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let (mut agent, start) = undecided(&argv, 2, json!({"measure": true}));
    let measured = event(&mut agent, "measured");
    assert_eq!((&measured["step_us"], &measured["packable"]), (&Value::Null, &json!(false)));
    assert_eq!(packed(&mut agent, start, 1).head["ok"], true);
}

#[test]
fn a_step_that_cannot_be_measured_is_told_with_its_reason() {
    for (answer, expected) in [
        (json!({"step_us": null, "reason": "no \"action\" space"}), "no \"action\" space"),
        (json!({"error": {"kind": "exception", "message": "lost"}}), "lost"),
    ] {
        let (mut agent, start) = crew(json!({"measure": answer}), 2, json!({"measure": true}));
        let measured = event(&mut agent, "measured");
        assert_eq!((&measured["step_us"], &measured["packable"]), (&Value::Null, &json!(true)));
        assert!(measured["reason"].as_str().expect("a reason").contains(expected), "{measured}");
        assert_eq!(packed(&mut agent, start, 1).head["ok"], true);
    }
}

#[test]
fn a_probe_that_ends_is_told_with_its_reason() {
    let argv = ["/bin/sh", "-c", "echo gone >&2; exit 3"];
    let (mut agent, start) = undecided(&argv, 2, json!({"measure": true}));
    let measured = event(&mut agent, "measured");
    assert!(measured["reason"].as_str().expect("a reason").contains("exit code 3"), "{measured}");
    let started = packed(&mut agent, start, 1).head;
    assert_eq!(started["error"]["code"], "environment_failed", "the rows show what is wrong: {started}");
    assert_eq!(started["error"]["details"]["stderr_tail"], "gone\n");
}

#[test]
fn pack_is_taken_once_and_only_when_it_is_waited_for() {
    let (mut agent, start) = crew(json!({}), 2, json!({}));
    for rows_per_process in [0, 3] {
        let refused = agent.request(&json!({"op": "pack", "rows_per_process": rows_per_process}), b"").head;
        assert_eq!(refused["error"]["code"], "invalid_request");
    }
    assert_eq!(packed(&mut agent, start, 2).head["ok"], true);
    let refused = agent.request(&json!({"op": "pack", "rows_per_process": 2}), b"").head;
    assert_eq!(refused["error"]["code"], "conflict");
}

#[test]
fn several_rows_in_a_process_of_another_program_are_refused_with_what_stands_in_the_way() {
    let (_agent, started) = try_crews(json!({"features": []}), 2, json!(2), json!({}));
    assert_eq!(started["error"]["code"], "packing_unsupported", "{started}");
    assert!(started["error"]["message"].as_str().expect("a message").contains("serve(make=…)"), "{started}");
    assert_eq!(started["error"]["details"], json!({"rows_per_process": 2}));
    let mut agent = Agent::new();
    let head = agent.start_head(&["/bin/sh", &program("counter.sh")], 2, json!({"rows_per_process": 2}));
    let started = agent.request(&head, b"{}").head;
    assert_eq!(started["error"]["code"], "packing_unsupported", "a program without hello: {started}");
}

#[test]
fn a_number_beyond_the_shards_rows_is_one_process() {
    let (mut agent, started) = try_crews(json!({}), 3, json!(8), json!({}));
    assert_eq!(started["hello"]["rows"], 3);
    assert_eq!(agent.status()["rows"][0]["pid"], agent.status()["rows"][2]["pid"]);
}
