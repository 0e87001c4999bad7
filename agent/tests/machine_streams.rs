//! Streams: exact, with credit, flat in memory.

mod machine;

use machine::{Agent, CREDIT_BYTES, pattern};
use sandpool_agent::channel::frame::Kind;
use serde_json::json;

const GIB: u64 = 1 << 30;

#[test]
fn fault_11_a_burst_waits_for_its_reader_and_loses_nothing() {
    let mut agent = Agent::new();
    agent.generous = false;
    let stream = agent.new_stream();
    let path = agent.path("bytes");
    let bytes = pattern(5_000_001);
    std::fs::write(&path, &bytes).expect("a file");
    agent.start("x1", &["/bin/cat", &path], &json!({"stdout": stream}));
    // Only what there was credit for comes; then the program waits.
    assert_eq!(agent.wait_bytes(stream, CREDIT_BYTES).len(), CREDIT_BYTES);
    assert_eq!(agent.listed("x1").expect("listed")["state"], "running");
    assert_eq!(agent.streams[&stream].bytes.len(), CREDIT_BYTES);
    agent.generous = true;
    agent.pay(stream, CREDIT_BYTES);
    let (came, end) = agent.drain(stream);
    assert_eq!(end, json!({"s": stream, "end": true}));
    assert!(came == bytes, "{} bytes came, not the {} that were written", came.len(), bytes.len());
    assert_eq!(agent.wait("x1").head["exit_code"], 0);
}

#[test]
fn a_gibibyte_of_output_passes_in_flat_memory() {
    let mut agent = Agent::new();
    let stream = agent.new_stream();
    let script = format!("head -c {GIB} /dev/zero; printf end");
    agent.start("x1", &["/bin/sh", "-c", &script], &json!({"stdout": stream}));
    let (mut count, mut zero, mut most) = (0, true, 0);
    let mut last = Vec::new();
    while agent.streams.get(&stream).is_none_or(|incoming| incoming.end.is_none()) {
        agent.take();
        if let Some(incoming) = agent.streams.get_mut(&stream) {
            let bytes = std::mem::take(&mut incoming.bytes);
            count += bytes.len() as u64;
            zero &= bytes.iter().rev().skip(3).all(|&byte| byte == 0);
            if !bytes.is_empty() {
                last = bytes;
            }
        }
        if count % (64 << 20) < 64 << 10 {
            most = most.max(agent.resident_bytes());
        }
    }
    assert_eq!((count, zero, last.ends_with(b"end")), (GIB + 3, true, true));
    assert!(most < 48 << 20, "the agent took {most} bytes");
    let outcome = agent.wait("x1");
    assert_eq!(outcome.head["stdout"], json!({"bytes": GIB + 3, "dropped": GIB + 3 - (8 << 20), "length": 8 << 20}));
}

#[test]
fn a_gibibyte_of_input_passes_in_flat_memory() {
    let mut agent = Agent::new();
    let stream = agent.new_stream();
    let script = "import sys\nread = sys.stdin.buffer.read\nfirst = read(1 << 20)\nsame = 1\n\
        while (block := read(1 << 20)): same += block == first\nprint(same, sum(first))";
    agent.start("x1", &["/usr/bin/python3", "-c", script], &json!({"stdin": true}));
    let feeding = agent.ask(&json!({"op": "exec.input", "id": "x1", "s": stream}));
    let block = pattern(1 << 20);
    let mut most = 0;
    for round in 0..GIB >> 20 {
        assert!(agent.feed(stream, &block));
        if round % 64 == 0 {
            most = most.max(agent.resident_bytes());
        }
    }
    agent.end(stream);
    assert_eq!(agent.answer(feeding).head["bytes"], GIB);
    let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
    assert_eq!(agent.wait("x1").text(), format!("1024 {sum}\n"));
    assert!(most < 32 << 20, "the agent took {most} bytes");
}

#[test]
fn a_reader_that_stands_still_stops_no_other() {
    let mut agent = Agent::new();
    agent.generous = false;
    let (still, moving) = (agent.new_stream(), agent.new_stream());
    agent.start("still", &["/usr/bin/yes"], &json!({"stdout": still}));
    agent.start("moving", &["/usr/bin/head", "-c", "900000", "/dev/zero"], &json!({"stdout": moving}));
    assert_eq!(agent.drain(moving).0.len(), 900_000);
    assert_eq!(agent.wait("moving").head["exit_code"], 0);
    assert_eq!(agent.wait_bytes(still, CREDIT_BYTES).len(), CREDIT_BYTES);
    // Once its reader has gone the program runs on, unread.
    agent.send(Kind::Event, 0, &json!({"event": "cancel", "s": still}), b"");
    agent.expect(&json!({"op": "exec.signal", "id": "still", "signal": "TERM"}));
    assert_eq!(agent.wait("still").head["signal"], "TERM");
}

#[test]
fn two_readers_get_the_same_from_the_start_and_from_now() {
    let mut agent = Agent::new();
    let (first, second, input) = (agent.new_stream(), agent.new_stream(), agent.new_stream());
    agent.start("x1", &["/bin/cat"], &json!({"stdin": true, "stdout": first}));
    agent.ask(&json!({"op": "exec.input", "id": "x1", "s": input}));
    agent.feed(input, b"one\n");
    agent.wait_bytes(first, 4);
    let third = agent.new_stream();
    agent.expect(&json!({"op": "exec.attach", "id": "x1", "stdout": second, "from": "start"}));
    agent.expect(&json!({"op": "exec.attach", "id": "x1", "stdout": third, "from": "now"}));
    agent.feed(input, b"two\n");
    agent.end(input);
    let bytes = [first, second, third].map(|stream| agent.drain(stream).0);
    assert_eq!(bytes, [b"one\ntwo\n".to_vec(), b"one\ntwo\n".to_vec(), b"two\n".to_vec()]);
}

#[test]
fn a_new_connection_ends_streams_and_leaves_programs() {
    let mut agent = Agent::new();
    let (output, input) = (agent.new_stream(), agent.new_stream());
    let started = agent.start("x1", &["/bin/cat"], &json!({"stdin": true, "stdout": output}));
    agent.ask(&json!({"op": "exec.input", "id": "x1", "s": input}));
    agent.feed(input, b"before ");
    agent.wait_bytes(output, 7);
    agent.send(Kind::Event, 0, &json!({"event": "disconnected"}), b"");
    // The same numbers may be used again at once.
    agent.begin(&json!({}));
    agent.streams.clear();
    let again = agent.start("x1", &["/bin/cat"], &json!({"stdin": true}));
    assert_eq!(again["pid"], started["pid"]);
    agent.expect(&json!({"op": "exec.attach", "id": "x1", "stdout": output, "from": "start"}));
    agent.ask(&json!({"op": "exec.input", "id": "x1", "s": input}));
    agent.feed(input, b"after");
    agent.end(input);
    assert_eq!(agent.drain(output).0, b"before after");
    assert_eq!(agent.wait("x1").head["exit_code"], 0);
}

#[test]
fn bytes_without_credit_fail_their_stream_only() {
    let mut agent = Agent::new();
    let stream = agent.new_stream();
    agent.start("x1", &["/bin/sleep", "1000"], &json!({"stdin": true}));
    let feeding = agent.ask(&json!({"op": "exec.input", "id": "x1", "s": stream}));
    for _ in 0..20 {
        agent.send(Kind::Data, 0, &json!({"s": stream}), &[0; 64 << 10]);
    }
    let bytes = agent.answer(feeding).head["bytes"].as_u64();
    assert!(bytes <= Some(64 << 10), "{bytes:?}");
    assert_eq!(agent.exec(&["true"], &json!({})).head["exit_code"], 0);
}

#[test]
fn damaged_frames_are_skipped_and_unknown_requests_answered() {
    use std::io::Write;
    let mut agent = Agent::new();
    let noise = [b"noise SPF1 more".as_slice(), &[0; 40]].concat();
    agent.input.as_mut().expect("open").write_all(&noise).expect("the agent reads");
    assert_eq!(agent.refuse(&json!({"op": "no.such"}))["code"], "invalid_request");
    assert_eq!(agent.refuse(&json!({"op": "exec.start"}))["code"], "invalid_request");
    let twice = json!({"op": "exec.attach", "id": "x", "stdout": 5, "stderr": 5});
    assert_eq!(agent.refuse(&twice)["code"], "exec_not_found");
    assert_eq!(agent.exec(&["true"], &json!({})).head["exit_code"], 0);
}

#[test]
fn numbers_of_any_size_are_taken_or_refused() {
    let mut agent = Agent::new();
    let most = u64::MAX;
    let members = json!({"timeout_ms": most, "grace_ms": most, "keep_bytes": most});
    assert_eq!(agent.exec(&["true"], &members).head["exit_code"], 0);
    let outcome = agent.exec(&["/bin/sleep", "1000"], &json!({"timeout_ms": 0}));
    assert_eq!((&outcome.head["timed_out"], &outcome.head["signal"]), (&json!(true), &json!("TERM")));
    for odd in [json!({"timeout_ms": -1}), json!({"timeout_ms": 1.5}), json!({"tty": {"rows": 70000, "columns": 1}})] {
        let mut head = json!({"op": "exec.start", "id": "odd", "argv": ["true"]});
        head.as_object_mut().expect("an object").extend(odd.as_object().expect("an object").clone());
        assert_eq!(agent.refuse(&head)["code"], "invalid_request", "{odd}");
    }
    let path = agent.path("file");
    std::fs::write(&path, "x").expect("a file");
    let stream = agent.new_stream();
    let reading = json!({"op": "file.read", "path": path, "s": stream, "offset": most, "length": most});
    agent.expect(&reading);
    assert_eq!(agent.drain(stream).1["error"]["code"], "file_invalid");
    let long = "x".repeat(100_000);
    agent.start("long", &["/bin/true", &long], &json!({}));
    assert_eq!(agent.wait("long").head["exit_code"], 0);
    assert!(agent.listed("long").expect("listed")["argv"].to_string().len() < 5000);
    agent.send(Kind::Event, 0, &json!({"event": "credit", "s": most, "bytes": most}), b"");
    agent.expect(&json!({"op": "stop", "ms": most}));
}
