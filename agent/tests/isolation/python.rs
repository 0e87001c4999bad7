//! The Python helper as template and as row, under the agent's identity and filters.

use serde_json::{Value, json};

use super::forks::check_identity;
use super::shard::Shard;

/// A template of the real helper, and row 5 forked from it.
fn fork_python(settings: Value) -> (Shard, i64) {
    let mut shard = Shard::isolated(settings);
    let argv = ["/usr/bin/python3", "-u", "/env/env.py"];
    shard.ask(
        "template",
        json!({"argv": argv, "cwd": "/env", "environ": {"PATH": "/usr/bin", "PYTHONDONTWRITEBYTECODE": "1"}}),
    );
    let hello = json!({"id": 1, "op": "hello", "protocol": 1, "template": true, "index": null, "n": 8, "rows": 1,
        "workspace": null, "config": null, "config_per_row": false});
    let answer = shard.ask("say", json!({"message": hello}));
    assert_eq!(answer["template"], true, "{answer}");
    let forked = shard.ask("fork", json!({"row": 5}));
    (shard, forked["pid"].as_i64().expect("a pid"))
}

fn status(shard: &mut Shard, pid: i64, field: &str) -> String {
    let status = shard.ask("read", json!({"path": format!("/proc/{pid}/status")}));
    let text = status["text"].as_str().expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
    line.trim().to_owned()
}

#[test]
fn a_program_run_by_a_forked_python_environment_has_the_rows_identity_and_nothing_more() {
    let (mut shard, pid) = fork_python(json!({}));
    let step = json!({"id": 2, "op": "step", "action": ["whoami"]});
    let answer = shard.ask("say", json!({"to": 5, "message": step}));
    let told: Value = serde_json::from_str(answer["obs"].as_str().expect("text")).expect("JSON");
    // A child program leads no session of its own.
    let told = super::shard::with(told, json!({"leads_session": true}));
    check_identity(&told, 10005);
    assert_eq!(status(&mut shard, pid, "CapPrm:"), "00000000002000c0");
    assert_eq!(status(&mut shard, pid, "CapEff:"), "0000000000000000");
    assert_eq!(shard.kill(5)["complete"], true);
    assert_eq!(shard.processes(5), 0);
}

#[test]
fn without_branching_a_forked_python_environment_keeps_no_capability() {
    let (mut shard, pid) = fork_python(json!({"branching": false}));
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(status(&mut shard, pid, set), "0000000000000000", "{set}");
    }
}
