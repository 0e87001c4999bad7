//! Fork bombs, limits, and the certainty of a kill.

use serde_json::json;

use super::shard::Shard;

const AGAIN: i32 = 11;

#[test]
fn a_row_has_its_number_of_processes_and_no_more_while_others_start_theirs() {
    let mut shard = Shard::isolated(json!({"processes": 40}));
    assert_eq!(shard.tell(0, &["breed", "200"]), json!({"processes": 40, "errno": AGAIN}));
    assert_eq!(shard.tell(1, &["breed", "40"]), json!({"processes": 40, "errno": 0}));
}

#[test]
fn without_isolation_the_same_program_makes_as_many_as_it_likes() {
    let bred = Shard::unisolated().tell(0, &["breed", "200"]);
    assert_eq!(bred, json!({"processes": 200, "errno": 0}));
}

#[test]
fn a_fork_bomb_stays_within_its_limit_and_is_killed_whole() {
    let mut shard = Shard::isolated(json!({"processes": 100}));
    shard.spawn(1, &["sleep"]);
    shard.spawn(0, &["bomb"]);
    shard.until("processes", json!({"row": 0}), |reply| (reply["processes"] == 100).then_some(()));
    assert_eq!(shard.kill(0), json!({"remaining": [], "complete": true}));
    assert_eq!(shard.processes(0), 0);
    assert_eq!(shard.wait(0)["signal"], 9);
    assert_eq!(shard.processes(1), 1);
}

#[test]
fn a_forked_fork_bomb_is_killed_whole_too() {
    let mut shard = Shard::isolated(json!({"processes": 60}));
    shard.ask("template", json!({}));
    shard.ask("fork", json!({"row": 0, "then": ["exec", "/sandpool/agent", "bomb"]}));
    shard.until("processes", json!({"row": 0}), |reply| (reply["processes"] == 60).then_some(()));
    assert_eq!(shard.kill(0)["complete"], true);
    assert_eq!(shard.processes(0), 0);
    shard.ask("fork", json!({"row": 1, "then": ["exec", "/sandpool/agent", "sleep"]}));
    assert_eq!(shard.printed(1), "ready");
}

#[test]
fn a_daemon_that_left_session_group_and_parent_is_killed_with_its_row() {
    for mut shard in [Shard::isolated(json!({})), Shard::unisolated()] {
        shard.spawn(1, &["sleep"]);
        shard.printed(1);
        shard.spawn(0, &["daemon"]);
        let daemon = shard.printed(0);
        shard.wait(0);
        assert_eq!(shard.kill(0), json!({"remaining": [], "complete": true}));
        let status = shard.try_ask("read", json!({"path": format!("/proc/{daemon}/status")}));
        // A zombie runs no more; the agent collects it at its next turn.
        let is_zombie = status["text"].as_str().is_some_and(|text| text.contains("State:\tZ"));
        assert!(status.get("error").is_some() || is_zombie, "{status}");
        shard.kill(1);
        assert_eq!(shard.wait(1)["signal"], 9);
    }
}

#[test]
fn a_process_that_ignores_and_stops_is_killed() {
    let mut shard = Shard::isolated(json!({}));
    let script = "trap '' TERM INT HUP; echo ready; kill -STOP $$";
    shard.ask("spawn", json!({"row": 0, "argv": ["sh", "-c", script]}));
    shard.printed(0);
    assert_eq!(shard.kill(0)["complete"], true);
    assert_eq!(shard.wait(0)["signal"], 9);
}

#[test]
fn killing_a_row_that_has_no_process_is_no_error() {
    for mut shard in [Shard::isolated(json!({})), Shard::unisolated()] {
        assert_eq!(shard.kill(7), json!({"remaining": [], "complete": true}));
    }
}

#[test]
fn processor_time_counts_what_the_process_used() {
    let mut shard = Shard::isolated(json!({}));
    shard.spawn(0, &["spin", "300"]);
    let seconds = shard.until("cpu_seconds", json!({"row": 0}), |reply| {
        // Not reaped yet, so it stays readable after the end.
        reply["cpu_seconds"].as_f64().filter(|seconds| *seconds >= 0.29)
    });
    assert!(seconds < 0.4, "{seconds}");
}

#[test]
fn an_exit_code_is_told() {
    let mut shard = Shard::isolated(json!({}));
    shard.ask("spawn", json!({"row": 0, "argv": ["sh", "-c", "exit 7"]}));
    let ended = shard.wait(0);
    assert_eq!((&ended["code"], &ended["signal"]), (&json!(7), &json!(null)));
}

#[test]
fn rows_that_were_signalled_together_end_together_and_no_other_does() {
    for mut shard in [Shard::isolated(json!({})), Shard::unisolated()] {
        let mut pids = Vec::new();
        for row in 0..4 {
            pids.push(shard.spawn(row, &["sleep"])["pid"].clone());
            shard.printed(row);
        }
        for row in 0..3 {
            shard.ask("signal", json!({"row": row}));
        }
        for row in 0..3 {
            assert_eq!(shard.kill(row)["complete"], true);
            assert_eq!(shard.wait(row)["signal"], 9);
        }
        // Signalling a row that has ended is no error.
        shard.ask("signal", json!({"row": 0}));
        let status = shard.ask("read", json!({"path": format!("/proc/{}/status", pids[3])}));
        assert!(status["text"].as_str().expect("text").contains("\nState:\tS"), "{status}");
    }
}
