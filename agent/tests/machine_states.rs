//! The agent's part in one instant: silence, then who it is now.

mod machine;

use machine::Agent;
use sandpool_agent::channel::frame::Kind;
use serde_json::json;
use std::time::Duration;

fn thaw(agent: &mut Agent) {
    agent.expect(&json!({"op": "thaw", "generation": 0, "copy": false}));
}

#[test]
fn in_the_silence_nothing_is_said_and_afterwards_nothing_is_missing() {
    let mut agent = Agent::new();
    let stream = agent.new_stream();
    let script = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); echo $i; done";
    agent.start("x1", &["/bin/sh", "-c", script], &json!({"stdout": stream}));
    agent.wait_bytes(stream, 1);
    agent.expect(&json!({"op": "quiesce"}));
    let before = agent.streams[&stream].bytes.len();
    // What is asked in the silence waits; a second quiesce is answered, so that it has read what came before.
    let early = agent.ask(&json!({"op": "exec.list"}));
    agent.send(Kind::Event, 0, &json!({"event": "credit", "s": stream, "bytes": 1000}), b"");
    agent.expect(&json!({"op": "quiesce"}));
    assert_eq!(agent.streams[&stream].bytes.len(), before);
    thaw(&mut agent);
    assert_eq!(agent.answer(early).head["execs"][0]["id"], "x1");
    let (bytes, end) = agent.drain(stream);
    assert_eq!(end["end"], true);
    let expected: String = (1..=2000).map(|number| format!("{number}\n")).collect();
    assert!(bytes == expected.as_bytes(), "{} bytes came", bytes.len());
}

#[test]
fn fault_44_a_deadline_is_not_reached_in_the_silence() {
    let mut agent = Agent::new();
    let go = agent.path("go");
    let script = format!("until [ -e {go} ]; do sleep 0.02; done");
    agent.start("x1", &["/bin/sh", "-c", &script], &json!({"timeout_ms": 4000}));
    agent.expect(&json!({"op": "quiesce"}));
    std::thread::sleep(Duration::from_millis(4500));
    thaw(&mut agent);
    std::fs::write(go, "").expect("a file");
    let outcome = agent.wait("x1");
    assert_eq!((&outcome.head["timed_out"], &outcome.head["exit_code"]), (&json!(false), &json!(0)));
}

#[test]
fn a_copy_has_its_parents_programs_as_detached_ones_and_none_of_its_streams() {
    let mut agent = Agent::new();
    let stream = agent.new_stream();
    let go = agent.path("go");
    let script = format!("echo before; until [ -e {go} ]; do sleep 0.02; done; echo after");
    agent.start("x1", &["/bin/sh", "-c", &script], &json!({"stdout": stream}));
    agent.wait_bytes(stream, 7);
    agent.expect(&json!({"op": "quiesce"}));
    agent.ask(&json!({"op": "exec.start", "id": "x2", "argv": ["/bin/true"]}));
    agent.expect(&json!({"op": "thaw", "generation": 1, "id": "m1", "copy": true}));
    assert_eq!(agent.listed("x1").expect("listed")["state"], "detached");
    // It was asked of the other machine.
    assert!(agent.listed("x2").is_none());
    agent.begin(&json!({"id": "m1", "generation": 1}));
    std::fs::write(go, "").expect("a file");
    let outcome = agent.wait("x1");
    assert_eq!(outcome.text(), "before\nafter\n");
    assert_eq!(outcome.head["state"], "exited");
    assert_eq!(agent.streams[&stream].bytes, b"before\n");
}

#[test]
fn a_server_that_dies_in_the_silence_is_followed_by_one_that_ends_it() {
    let mut agent = Agent::new();
    agent.expect(&json!({"op": "quiesce"}));
    agent.send(Kind::Event, 0, &json!({"event": "disconnected"}), b"");
    agent.begin(&json!({}));
    assert_eq!(agent.shell("echo here").text(), "here\n");
}

#[test]
fn half_a_frame_from_before_the_instant_does_not_swallow_the_thaw() {
    let mut agent = Agent::new();
    agent.expect(&json!({"op": "quiesce"}));
    // The head announces a body of which no byte came; the shim fills the rest with zeros.
    let head = json!({"s": 9}).to_string().into_bytes();
    let mut torn = sandpool_agent::channel::frame::encode(0, Kind::Data, &head, 64 << 10).to_vec();
    torn.extend_from_slice(&head);
    torn.extend_from_slice(&vec![0; (64 << 10) + 1024]);
    std::io::Write::write_all(agent.input.as_mut().expect("open"), &torn).expect("the agent reads");
    agent.expect(&json!({"op": "thaw", "generation": 1, "id": "m1", "copy": true}));
    assert!(
        agent.refuse(&json!({"op": "thaw", "generation": 0}))["message"].as_str().unwrap().contains("expected no less")
    );
}
