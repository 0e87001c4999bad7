//! How a shard starts: forks of a template, ordinary starts, and what fails all of it.

mod harness;

use harness::{Agent, program, puppet, puppets};
use serde_json::{Value, json};

fn refused(settings: Value, count: u32, changes: Value, body: &str) -> Value {
    let mut agent = Agent::new();
    let argv = puppet(settings);
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let head = agent.start_head(&argv, count, changes);
    let reply = agent.request(&head, body.as_bytes());
    assert_eq!(reply.head["ok"], false, "{}", reply.head);
    reply.head["error"].clone()
}

#[test]
fn rows_are_forks_of_a_template_that_can_fork() {
    let (mut agent, start) = puppets(json!({"template": true}), 20, json!({"way": "auto"}));
    assert_eq!(start["way"], "fork");
    assert_eq!(start["reason"], Value::Null);
    assert_eq!(start["hello"]["index"], 0);
    let batch = agent.step(json!((0..20).collect::<Vec<_>>()), json!({}));
    assert_eq!(batch.column("rewards"), json!((0..20).map(f64::from).collect::<Vec<_>>()));
    let status = agent.status();
    let mut pids: Vec<i64> =
        status["rows"].as_array().expect("rows").iter().map(|row| row["pid"].as_i64().expect("a pid")).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 20, "every row has a process of its own");
}

#[test]
fn a_forked_row_that_dies_is_forked_anew() {
    let (mut agent, _) = puppets(json!({"template": true}), 3, json!({"way": "fork"}));
    let batch = agent.step(json!([1, [["stderr", "first life"], ["kill", 11]], 3]), json!({}));
    assert_eq!(batch.error(1)["signal"], 11);
    assert_eq!(batch.error(1)["stderr_tail"], "first life");
    let reset = agent.reset(json!({"rows": [1]}));
    assert_eq!(reset.column("obs"), json!([0.0]));
    assert_eq!(agent.step(json!([1, 2, 3]), json!({})).column("obs"), json!([1.0, 2.0, 3.0]));
    assert_eq!(agent.logs(1), "first life\n--- replaced ---\n");
    let status = agent.status();
    assert_eq!(status["rows"][1]["replacements"], 1);
    assert_eq!(status["counters"]["replacements"], 1);
}

#[test]
fn a_template_that_died_is_started_again_when_a_fork_is_needed() {
    let (mut agent, _) = puppets(json!({"template": true}), 2, json!({"way": "fork"}));
    let pid = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", agent.process.id())).expect("children");
    let status = agent.status();
    let template = pid
        .split_whitespace()
        .filter_map(|pid| pid.parse::<i64>().ok())
        .find(|pid| status["rows"].as_array().expect("rows").iter().all(|row| row["pid"] != *pid))
        .expect("the template's pid");
    // SAFETY: a pid of a child of the agent that was just seen.
    unsafe { libc::kill(template as i32, libc::SIGKILL) };
    let batch = agent.step(json!([1, [["exit", 3]]]), json!({}));
    assert_eq!(batch.error(1)["exit_code"], 3);
    let reset = agent.reset(json!({"rows": [1]}));
    assert_eq!(reset.head["failed"], json!([]));
    assert_eq!(agent.step(json!([1, 2]), json!({})).column("obs"), json!([1.0, 2.0]));
}

#[test]
fn a_program_that_is_no_template_is_started_the_ordinary_way_and_the_reason_is_told() {
    let (_agent, start) = puppets(json!({}), 2, json!({"way": "auto"}));
    assert_eq!(start["way"], "spawn");
    assert!(start["reason"].as_str().expect("a reason").contains("not as a template"));
}

#[test]
fn blockers_are_the_reason_of_an_ordinary_start() {
    let text = r#"{"id":$ID,"error":{"kind":"fork_unsupported","message":"threads","blockers":[{"threads":3,"names":["x"]}]}}"#;
    let settings = json!({"socket": true, "hello_script": [["once", "MARK"], ["write", text]]});
    let mark = std::env::temp_dir().join(format!("sandpool-blockers-{}", std::process::id()));
    let settings = settings.to_string().replace("MARK", &mark.to_string_lossy());
    let settings: Value = serde_json::from_str(&settings).expect("settings");
    let (_agent, start) = puppets(settings.clone(), 1, json!({"way": "auto", "first_reset": false}));
    assert_eq!(start["way"], "spawn");
    assert!(start["reason"].as_str().expect("a reason").starts_with("threads (blockers: [{\"threads\":3"));
    std::fs::remove_file(&mark).expect("the mark");
    let error = refused(settings, 1, json!({"way": "fork"}), "{}");
    std::fs::remove_file(&mark).expect("the mark");
    assert_eq!(error["code"], "fork_unsupported");
    assert_eq!(error["details"]["blockers"][0]["threads"], 3);
}

#[test]
fn a_program_may_answer_on_either_stream_and_noise_before_hello_is_logged() {
    for socket in [false, true] {
        let (mut agent, start) = puppets(json!({"socket": socket, "noise": ["Loading…", "[1]", "{}"]}), 2, json!({}));
        assert_eq!(start["way"], "spawn");
        assert_eq!(agent.step(json!([1, 2]), json!({})).column("obs"), json!([1.0, 2.0]));
        assert_eq!(agent.logs(0), "Loading…\n[1]\n{}\n");
    }
}

#[test]
fn a_program_that_cannot_be_executed_fails_the_start() {
    let mut agent = Agent::new();
    let head = agent.start_head(&["/nonexistent/program"], 1, json!({}));
    let reply = agent.request(&head, b"{}");
    assert_eq!(reply.head["error"]["code"], "environment_failed");
    let message = reply.head["error"]["message"].as_str().expect("a message");
    assert!(message.contains("/nonexistent/program"), "{message}");
}

#[test]
fn an_exit_before_hello_fails_the_start_with_the_evidence() {
    let settings = json!({"hello_script": [["stderr", "ImportError: no module"], ["exit", 1]]});
    for way in ["spawn", "auto"] {
        let error = refused(settings.clone(), 3, json!({"way": way}), "{}");
        assert_eq!(error["code"], "environment_failed");
        assert_eq!(error["details"]["kind"], "crash");
        assert_eq!(error["details"]["op"], "hello");
        assert_eq!(error["details"]["exit_code"], 1);
        assert_eq!(error["details"]["stderr_tail"], "ImportError: no module");
    }
}

#[test]
fn silence_until_the_deadline_fails_the_start() {
    let settings = json!({"hello_script": [["sleep", 60]]});
    let error = refused(settings, 1, json!({"deadlines_ms": {"start": 300}}), "{}");
    assert_eq!(error["details"]["kind"], "timeout");
    assert_eq!(error["details"]["deadline_s"], 0.3);
}

#[test]
fn an_exception_in_the_first_reset_fails_the_start_with_its_row() {
    let mut agent = Agent::new();
    let path = program("broken_reset.sh");
    let head = agent.start_head(&["/bin/sh", &path], 2, json!({"n": 7, "first": 5}));
    let reply = agent.request(&head, b"{}");
    let details = &reply.head["error"]["details"];
    assert_eq!(reply.head["error"]["code"], "environment_failed");
    assert_eq!((&details["row"], &details["kind"], &details["op"]), (&json!(6), &json!("exception"), &json!("reset")));
    assert_eq!(details["traceback"], "line 1");
}

#[test]
fn a_child_that_says_no_hello_fails_the_start() {
    let error = refused(json!({"template": true, "child_script": [["exit", 5]]}), 2, json!({"way": "fork"}), "{}");
    assert_eq!(error["details"]["kind"], "crash");
    assert_eq!(error["details"]["exit_code"], 5);
}

#[test]
fn config_is_one_for_all_or_one_a_row_and_keeps_its_text() {
    let mut agent = Agent::new();
    let path = program("config.py");
    let argv = ["/usr/bin/python3", "-S", "-B", &path];
    let head = agent.start_head(&argv, 2, json!({"n": 4, "first": 1}));
    let body = r#"{"config":[{"a":0},{"a":1.0},
        {"a":123456789012345678901234567890},{"a":3}]}"#;
    let reply = agent.request(&head, body.as_bytes());
    assert_eq!(reply.head["ok"], true, "{}", reply.head);
    agent.request(&json!({"op": "layout", "layout": {"kind": "list"}}), b"");
    let observed = agent.request(&json!({"op": "observe", "encoding": "json"}), b"");
    let text = String::from_utf8(observed.body).expect("UTF-8");
    assert!(text.starts_with(r#"{"a":1.0},{"a":123456789012345678901234567890}{}"#), "{text}");
}

#[test]
fn a_config_list_of_the_wrong_length_is_refused() {
    let error = refused(json!({}), 2, json!({}), r#"{"config":[{}]}"#);
    assert_eq!(error["code"], "invalid_request");
    assert!(
        error["message"]
            .as_str()
            .expect("a message")
            .contains("a list of 1, expected one object for all rows or a list of 2")
    );
}

#[test]
fn progress_is_told_for_each_phase() {
    let (agent, _) = puppets(json!({"template": true}), 4, json!({"way": "auto"}));
    let mut phases: Vec<&str> = agent.events.iter().filter_map(|event| event["phase"].as_str()).collect();
    phases.dedup();
    assert_eq!(phases, ["start", "reset"]);
    assert!(agent.events.contains(&json!({"event": "progress", "phase": "start", "done": 4, "total": 4})));
}

#[test]
fn without_a_first_reset_rows_wait_for_theirs() {
    let (mut agent, start) = puppets(json!({}), 2, json!({"first_reset": false}));
    assert_eq!(start["layout"], json!({"kind": "list"}));
    let observed = agent.request(&json!({"op": "observe", "encoding": "json"}), b"");
    assert_eq!(observed.body, b"null,null{},{}");
    assert_eq!(agent.reset(json!({})).column("obs"), json!([0, 0]));
}

#[test]
fn three_failed_replacements_make_a_row_lost_until_a_hard_reset() {
    let mark = std::env::temp_dir().join(format!("sandpool-lost-{}", std::process::id()));
    let settings = json!({"hello_script": [["exists", mark], ["exit", 1]]});
    let (mut agent, _) = puppets(settings, 1, json!({}));
    std::fs::write(&mark, "").expect("the mark");
    agent.step(json!([[["exit", 2]]]), json!({}));
    agent.await_status(|status| status["rows"][0]["state"] == "lost");
    let batch = agent.step(json!([1]), json!({}));
    assert_eq!(batch.error(0)["kind"], "lost");
    let batch = agent.reset(json!({}));
    assert_eq!((&batch.error(0)["kind"], &batch.error(0)["repeated"]), (&json!("lost"), &json!(true)));
    std::fs::remove_file(&mark).expect("the mark");
    let batch = agent.reset(json!({"hard": true}));
    assert_eq!(batch.head["failed"], json!([]));
    assert_eq!(agent.step(json!([3]), json!({})).column("obs"), json!([3.0]));
}
