//! Saved states: rows become states, and states rows. Without isolation.

mod harness;

use harness::branch::{is_reaped, kill, lives, totals, twins};
use harness::{Agent, Batch};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn derived(kind: &str, row: u32, count: u32) -> u64 {
    let digest = Sha256::digest(format!("sandpool-{kind}/1:123:{row}:{count}"));
    u64::from(u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]) >> 1)
}

fn states(agent: &mut Agent) -> Value {
    agent.status()["states"].clone()
}

#[test]
fn a_state_is_restored_any_number_of_times_onto_any_row() {
    let mut agent = twins(json!({}), 3, json!({}));
    agent.add(json!([5, 1, 1]));
    agent.add(json!([1, 1, 1]));
    let saved = agent.save(json!([[0, 7]]));
    let seed = derived("seed", 0, 0);
    let expected = json!([{
        "slot": 7, "row": 0, "episode": 0, "step": 2, "seed": seed, "pending": false, "way": "fork",
    }]);
    assert_eq!(saved, expected);
    assert_eq!(agent.add(json!([10, 0, 0])), [16, 2, 2], "the source goes on");
    assert_eq!(totals(&agent.restore(json!([[7, 1], [7, 2]]))), [6, 6]);
    assert_eq!(agent.add(json!([1, 2, 3])), [17, 8, 9]);
    assert_eq!(totals(&agent.restore(json!([[7, 0]]))), [6], "and once more");
    assert_eq!(agent.add(json!([1, 0, 0])), [7, 8, 9]);
    assert_eq!(states(&mut agent).as_array().map(Vec::len), Some(1));
}

#[test]
fn a_state_outlives_the_reset_and_the_death_of_its_row() {
    let mut agent = twins(json!({}), 2, json!({}));
    agent.add(json!([5, 1]));
    agent.save(json!([[0, 0], [1, 1]]));
    agent.reset(json!({"hard": true}));
    assert_eq!(totals(&agent.restore(json!([[0, 0]]))), [5]);
    kill(&agent.ask("pid")[0].clone());
    let batch = agent.step(json!([0, 0]), json!({}));
    assert_eq!(batch.head["failed"], json!([0]));
    let batch = agent.restore(json!([[0, 1], [1, 0]]));
    assert_eq!((totals(&batch), &batch.head["failed"]), (vec![1, 5], &json!([])));
    assert_eq!(agent.add(json!([1, 1])), [2, 6]);
}

#[test]
fn a_restored_row_knows_the_step_and_the_seed_of_its_state() {
    let mut agent = twins(json!({}), 2, json!({}));
    agent.reset(json!({"seeds": [77, 78], "seed": 77}));
    agent.add(json!([1, 1]));
    agent.add(json!([1, 1]));
    agent.save(json!([[0, 0]]));
    agent.reset(json!({}));
    agent.restore(json!([[0, 1]]));
    agent.add(json!([0, 1]));
    let saved = agent.save(json!([[0, 1], [1, 2]]));
    let known = |place: usize| ["row", "episode", "step", "seed"].map(|name| saved[place][name].clone());
    let seed = Sha256::digest("sandpool-seed/1:77:0:1");
    let seed = u32::from_be_bytes([seed[0], seed[1], seed[2], seed[3]]) >> 1;
    assert_eq!(known(0), [json!(0), json!(1), json!(1), json!(seed)]);
    assert_eq!(known(1), [json!(1), json!(1), json!(3), json!(77)], "its own count of resets, the rest its state's");
}

#[test]
fn states_end_when_they_are_dropped_and_their_slots_are_free_again() {
    let mut agent = twins(json!({}), 2, json!({}));
    agent.save(json!([[0, 0], [1, 1]]));
    let known = states(&mut agent);
    let pids: Vec<_> = known.as_array().expect("states").iter().map(|state| state["pid"].clone()).collect();
    let reply = agent.branch("save", json!([[0, 1]]), json!({}));
    assert_eq!(reply["error"]["code"], "invalid_request", "the slot is taken: {reply}");
    agent.drop_states(json!([0, 900, 0]));
    assert!(!lives(&pids[0]) && lives(&pids[1]), "the reply came when it had ended");
    assert_eq!(states(&mut agent)[0]["slot"], 1);
    agent.add(json!([3, 0]));
    agent.save(json!([[0, 0]]));
    assert_eq!(totals(&agent.restore(json!([[0, 1], [1, 0]]))), [0, 3]);
}

#[test]
fn a_state_that_dies_is_told_and_cannot_be_restored() {
    let mut agent = twins(json!({}), 2, json!({}));
    agent.save(json!([[0, 3], [1, 4]]));
    kill(&states(&mut agent)[0]["pid"].clone());
    let event = agent.event("state_lost");
    assert_eq!((&event["slot"], &event["error"]["kind"]), (&json!(3), &json!("crash")));
    assert_eq!((&event["error"]["signal"], &event["error"]["op"]), (&json!(9), &json!("idle")));
    let sources = agent.refused("restore", json!([[3, 0], [4, 1]]));
    assert_eq!(sources, json!([{"state": 3, "blockers": [{"failed": "crash"}], "text": "failed: crash"}]));
    agent.drop_states(json!([3]));
    assert_eq!(agent.branch("restore", json!([[3, 0]]), json!({}))["error"]["code"], "invalid_request");
    assert_eq!(totals(&agent.restore(json!([[4, 0]]))), [0]);
}

#[test]
fn a_state_that_ends_while_it_is_copied_is_lost_and_its_targets_are_as_before() {
    let path = std::env::temp_dir().join(format!("sandpool-state-{}", std::process::id()));
    let script = json!([["exists", path], ["exit", 5]]);
    let mut agent = twins(json!({"source_script": script}), 2, json!({}));
    agent.add(json!([1, 2]));
    agent.save(json!([[0, 0]]));
    std::fs::write(&path, "").expect("a file");
    let sources = agent.refused("restore", json!([[0, 1]]));
    std::fs::remove_file(&path).expect("a file");
    assert_eq!(sources[0]["blockers"], json!([{"failed": "crash"}]));
    assert_eq!(agent.event("state_lost")["error"]["exit_code"], 5);
    assert_eq!(agent.look(2), [1, 2]);
}

#[test]
fn a_state_whose_copy_died_before_it_was_kept_fails_the_whole_save() {
    let mut agent = twins(json!({}), 2, json!({}));
    let held = agent.held("save", json!([[0, 0], [1, 1]]));
    kill(&held[1]);
    agent.await_status(|_| is_reaped(&held[1]));
    let reply = agent.settle(json!({})).head;
    assert_eq!(reply["error"]["code"], "agent_failed", "{reply}");
    assert_eq!(states(&mut agent), json!([]));
    agent.await_status(|_| is_reaped(&held[0]));
    assert_eq!(agent.look(2), [0, 0], "the number was used up, as another shard's may be");
}

#[test]
fn the_end_of_an_episode_is_copied_and_stays_pending() {
    let mut agent = twins(json!({"limit": 3}), 2, json!({"autoreset": "next_step"}));
    agent.add(json!([3, 1]));
    let saved = agent.save(json!([[0, 0], [1, 1]]));
    assert_eq!((&saved[0]["pending"], &saved[1]["pending"]), (&json!(true), &json!(false)));
    assert_eq!(totals(&agent.restore(json!([[0, 1], [1, 0]]))), [1, 3]);
    let batch = agent.step(json!([1, 1]), json!({}));
    assert_eq!(totals(&batch), [2, 0], "the ended one is reset by its next step");
    assert_eq!(batch.column("rewards"), json!([1.0, 0.0]));
    let mut agent = twins(json!({"limit": 3}), 1, json!({}));
    agent.add(json!([3]));
    assert_eq!(agent.save(json!([[0, 0]]))[0]["pending"], true, "also where nobody resets it");
    agent.reset(json!({}));
    assert_eq!(agent.save(json!([[0, 1]]))[0]["pending"], false);
}

#[test]
fn a_copy_is_reseeded_as_it_is_asked() {
    let mut agent = twins(json!({}), 3, json!({}));
    let seeds = agent.ask("stream");
    agent.hold("fork", json!([[0, 1], [0, 2]]), json!({"reseed": [5, null]}));
    let batch = Batch::of(agent.settle(json!({})));
    assert_eq!(batch.head["reseeded"], json!([["stream"], null]));
    assert_eq!(agent.ask("stream"), json!([seeds[0], 5, seeds[0]]));
    agent.hold("fork", json!([[0, 1], [0, 2]]), json!({"reseed_derived": true}));
    agent.request(&json!({"op": "unsettle"}), b"");
    for count in [1, 2] {
        agent.hold("fork", json!([[0, 1]]), json!({"reseed_derived": true}));
        Batch::of(agent.settle(json!({})));
        let expected = derived("reseed", 1, count);
        assert_eq!(agent.ask("stream")[1], json!(expected), "counted by what was settled");
    }
    agent.save(json!([[1, 0]]));
    agent.hold("restore", json!([[0, 2]]), json!({"reseed_derived": true}));
    assert_eq!(Batch::of(agent.settle(json!({}))).head["reseeded"], json!([["stream"]]));
    assert_eq!(agent.ask("stream")[2], json!(derived("reseed", 2, 0)));
    let mut agent = twins(json!({"no_stream": true}), 2, json!({}));
    agent.hold("fork", json!([[0, 1]]), json!({"reseed": [5]}));
    assert_eq!(Batch::of(agent.settle(json!({}))).head["reseeded"], json!([[]]));
}

#[test]
fn the_status_tells_of_states_and_what_memory_they_hold() {
    let mut agent = twins(json!({}), 2, json!({}));
    agent.save(json!([[1, 2], [0, 9]]));
    let status = agent.request(&json!({"op": "status", "memory": true}), b"").head;
    let known = status["states"].as_array().expect("states");
    assert_eq!([&known[0]["slot"], &known[1]["slot"]], [&json!(2), &json!(9)]);
    for state in known {
        assert_eq!((&state["way"], &state["bytes"]), (&json!("fork"), &json!(0)));
        assert!(state["pss_bytes"].as_u64().is_some_and(|bytes| bytes > 100_000), "{state}");
    }
}
