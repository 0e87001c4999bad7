//! Status, logs and the end.

mod harness;

use harness::puppets;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

fn gone(pid: i64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

fn await_gone(pid: i64) {
    let began = Instant::now();
    while !gone(pid) {
        assert!(began.elapsed() < Duration::from_secs(20), "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pids(status: &Value) -> Vec<i64> {
    status["rows"].as_array().expect("rows").iter().filter_map(|row| row["pid"].as_i64()).collect()
}

#[test]
fn status_tells_each_row_and_samples_memory() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"n": 8, "first": 6}));
    agent.step(json!([1, 2]), json!({}));
    let status = agent.request(&json!({"op": "status", "memory": true}), b"").head;
    let row = &status["rows"][1];
    assert_eq!((&row["row"], &row["state"], &row["episode"]), (&json!(7), &json!("ready"), &json!(1)));
    assert_eq!((&row["error"], &row["replacements"]), (&Value::Null, &json!(0)));
    assert!(row["pss_bytes"].as_u64().expect("a size") > 1 << 20);
    assert!(status["agent_pss_bytes"].as_u64().expect("a size") > 1 << 16);
    assert_eq!(status["memory_method"], "smaps_rollup");
}

#[test]
fn the_log_of_a_row_that_does_not_exist_is_refused() {
    let (mut agent, _) = puppets(json!({}), 2, json!({}));
    let reply = agent.request(&json!({"op": "logs", "row": 2}), b"");
    assert_eq!(reply.head["error"]["message"], "received the row 2, expected 0 to 1");
}

#[test]
fn close_ends_every_process_and_removes_the_files() {
    let (mut agent, _) = puppets(json!({"template": true}), 3, json!({"way": "auto"}));
    let running = pids(&agent.status());
    assert_eq!(running.len(), 3);
    let reply = agent.request(&json!({"op": "close"}), b"");
    assert_eq!(reply.head, json!({"ok": true}));
    assert!(agent.frame().is_none(), "the channel ends");
    assert!(agent.process.wait().expect("an exit").success());
    running.into_iter().for_each(await_gone);
    assert_eq!(std::fs::read_dir(&agent.folder).expect("the folder").count(), 0);
}

#[test]
fn close_does_not_wait_for_a_row_that_hangs() {
    let (mut agent, _) = puppets(json!({}), 2, json!({"deadlines_ms": {"close": 300}}));
    let running = pids(&agent.status());
    let head = json!({"op": "step", "seq": 1, "encoding": "json", "rows": null, "offset": 0,
        "actions": {"kind": "json"}});
    agent.send(&head, json!({"actions": [1, [["sleep", 60]]]}).to_string().as_bytes());
    let reply = agent.request(&json!({"op": "close"}), b"");
    assert_eq!(reply.head, json!({"ok": true}));
    running.into_iter().for_each(await_gone);
}

#[test]
fn the_end_of_the_channel_kills_everything() {
    let (mut agent, _) = puppets(json!({"template": true}), 3, json!({"way": "auto"}));
    let answer = r#"{"id":$ID,"obs":3,"reward":1,"terminated":false}"#;
    agent.step(json!([1, 2, [["orphan"], ["write", answer]]]), json!({}));
    let running = pids(&agent.status());
    let children = descendants_with_home(&agent.folder);
    agent.stream.shutdown(std::net::Shutdown::Both).expect("a shutdown");
    agent.process.wait().expect("an exit");
    running.into_iter().chain(children).for_each(await_gone);
}

#[test]
fn what_a_failed_row_left_behind_is_killed_before_its_replacement_starts() {
    let (mut agent, _) = puppets(json!({}), 1, json!({}));
    agent.step(json!([[["orphan"], ["exit", 3]]]), json!({}));
    let reset = agent.reset(json!({}));
    assert_eq!(reset.head["failed"], json!([]));
    assert_eq!(descendants_with_home(&agent.folder), pids(&agent.status()), "only the new process is left");
}

#[test]
fn a_start_that_failed_leaves_nothing_and_can_be_closed() {
    let mut agent = harness::Agent::new();
    let argv = harness::puppet(json!({"hello_script": [["orphan"], ["exit", 3]]}));
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let head = agent.start_head(&argv, 2, json!({}));
    assert_eq!(agent.request(&head, b"{}").head["ok"], false);
    assert_eq!(descendants_with_home(&agent.folder), Vec::<i64>::new());
    let error = agent.request(&json!({"op": "step", "seq": 1}), b"").head;
    assert_eq!(error["error"]["code"], "conflict");
    assert_eq!(agent.request(&json!({"op": "close"}), b"").head, json!({"ok": true}));
}

/// Living processes whose HOME is inside a folder.
fn descendants_with_home(folder: &Path) -> Vec<i64> {
    let wanted = format!("HOME={}/", folder.display());
    let mut found: Vec<i64> = std::fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            !gone(*pid) && environ.windows(wanted.len()).any(|window| window == wanted.as_bytes())
        })
        .collect();
    found.sort_unstable();
    found
}
