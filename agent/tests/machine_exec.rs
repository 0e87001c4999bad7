//! Programs of a machine. Numbers are those of the faults that users of other platforms met.

mod machine;

use machine::{Agent, NOBODY, is_alive, is_root, pids};
use serde_json::json;

const TRICKS: &str = "
    trap '' TERM HUP
    echo $$
    setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1000; done' &
    (setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000; sleep 1000' &)
    sh -c 'echo $$; kill -STOP $$' &
    while :; do sleep 1000; done";

#[test]
fn fault_1_2_3_a_deadline_ends_the_whole_tree() {
    let mut agent = Agent::new();
    let argv = ["/bin/sh", "-c", TRICKS];
    let outcome = agent.exec(&argv, &json!({"timeout_ms": 700, "grace_ms": 100}));
    assert_eq!(outcome.head["timed_out"], true);
    assert_eq!(outcome.head["signal"], "KILL");
    assert_eq!(outcome.head["left"], json!([]));
    let pids = pids(&outcome.text());
    assert_eq!(pids.len(), 4, "{}", outcome.text());
    assert!(pids.iter().all(|&pid| !is_alive(pid)), "{pids:?}");
}

#[test]
fn fault_4_a_deadline_needs_no_reader() {
    let mut agent = Agent::new();
    agent.generous = false;
    let stream = agent.new_stream();
    agent.start("x1", &["/bin/sh", "-c", "yes"], &json!({"stdout": stream, "timeout_ms": 300, "grace_ms": 100}));
    let outcome = agent.wait("x1");
    assert_eq!((&outcome.head["timed_out"], &outcome.head["signal"]), (&json!(true), &json!("TERM")));
}

#[test]
fn fault_5_18_a_call_returns_with_its_leader_though_a_daemon_holds_the_pipe() {
    let mut agent = Agent::new();
    let outcome = agent.shell("(sleep 1000; echo later) & echo $!; exit 7");
    assert_eq!((&outcome.head["exit_code"], &outcome.head["state"]), (&json!(7), &json!("detached")));
    let daemon = pids(&outcome.text())[0];
    assert_eq!(outcome.head["left"][0]["pid"], daemon);
    assert!(is_alive(daemon));
}

#[test]
fn fault_18_a_daemon_writes_on_and_can_be_attached_to_and_ended() {
    let mut agent = Agent::new();
    let go = agent.path("go");
    let script = format!("(while [ ! -e {go} ]; do sleep 0.02; done; echo later; sleep 1000) & echo first");
    agent.start("x1", &["/bin/sh", "-c", &script], &json!({}));
    assert_eq!(agent.wait("x1").stdout, b"first\n");
    let stream = agent.new_stream();
    let reply =
        agent.expect(&json!({"op": "exec.attach", "id": "x1", "stdout": stream, "stderr": null, "from": "start"}));
    assert_eq!((&reply["state"], &reply["kept"]["stdout"]["head"]), (&json!("detached"), &json!(6)));
    std::fs::write(&go, "").expect("a file");
    assert_eq!(agent.wait_bytes(stream, 12), b"first\nlater\n");
    let reply = agent.expect(&json!({"op": "exec.signal", "id": "x1", "signal": "KILL", "tree": true}));
    assert!(reply["signalled"].as_u64() >= Some(1), "{reply}");
    assert_eq!(agent.drain(stream).0, b"first\nlater\n");
    let state = agent.until(|agent| agent.listed("x1").filter(|exec| exec["state"] == "exited"));
    assert_eq!(state["exit_code"], 0);
}

#[test]
fn fault_6_output_before_a_timeout_is_kept() {
    let mut agent = Agent::new();
    let script = "printf before; printf error >&2; sleep 1000";
    let outcome = agent.exec(&["/bin/sh", "-c", script], &json!({"timeout_ms": 400}));
    assert_eq!((outcome.stdout, outcome.stderr), (b"before".to_vec(), b"error".to_vec()));
    assert_eq!(outcome.head["timed_out"], true);
}

#[test]
fn fault_7_8_output_is_exact_without_a_last_newline() {
    let mut agent = Agent::new();
    let outcome = agent.shell("printf 'no newline'; exit 3");
    assert_eq!((outcome.stdout.as_slice(), &outcome.head["exit_code"]), (b"no newline".as_slice(), &json!(3)));
    let line = agent.exec(&["/usr/bin/head", "-c", "3000000", "/dev/zero"], &json!({}));
    assert_eq!((line.stdout.len(), line.stdout.iter().all(|&byte| byte == 0)), (3_000_000, true));
}

#[test]
fn fault_9_10_over_the_cap_head_and_tail_stay_and_the_rest_is_counted() {
    let mut agent = Agent::new();
    let outcome = agent.exec(&["/usr/bin/seq", "1", "100000"], &json!({"keep_bytes": 1000}));
    let whole: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    let expected = [&whole.as_bytes()[..500], &whole.as_bytes()[whole.len() - 500..]].concat();
    assert_eq!(outcome.stdout, expected);
    let counts = json!({"bytes": whole.len(), "dropped": whole.len() - 1000, "length": 1000});
    assert_eq!(outcome.head["stdout"], counts);
}

#[test]
fn fault_12_bytes_are_untouched() {
    let mut agent = Agent::new();
    let text = "Grüße, 世界 🙂 \u{feff}\r\n";
    let outcome = agent.exec(&["/usr/bin/printf", "%s", text], &json!({}));
    assert_eq!(outcome.stdout, text.as_bytes());
    let outcome = agent.shell("printf '\\377\\376\\000\\200'");
    assert_eq!(outcome.stdout, [0xff, 0xfe, 0, 0x80]);
}

#[test]
fn fault_13_an_open_standard_input_holds_no_call() {
    let mut agent = Agent::new();
    let stream = agent.new_stream();
    agent.start("x1", &["/bin/sh", "-c", "exit 4"], &json!({"stdin": true}));
    let feeding = agent.ask(&json!({"op": "exec.input", "id": "x1", "s": stream}));
    assert_eq!(agent.wait("x1").head["exit_code"], 4);
    let reply = agent.answer(feeding).head;
    assert!(reply["ok"] == false || reply["bytes"] == 0, "{reply}");
    let outcome = agent.exec(&["/bin/cat"], &json!({"stdin": true, "timeout_ms": 200}));
    assert_eq!(outcome.head["timed_out"], true);
    let outcome = agent.exec(&["/bin/cat"], &json!({}));
    assert_eq!(outcome.head["exit_code"], 0);
}

#[test]
fn fault_14_15_input_just_before_its_end_arrives() {
    let mut agent = Agent::new();
    for round in 0..20 {
        let (stream, id) = (agent.new_stream(), format!("x{round}"));
        agent.start(&id, &["/bin/cat"], &json!({"stdin": true}));
        let feeding = agent.ask(&json!({"op": "exec.input", "id": id, "s": stream}));
        agent.feed(stream, b"only");
        agent.feed(stream, b" this");
        agent.end(stream);
        assert_eq!(agent.answer(feeding).head, json!({"ok": true, "bytes": 9}));
        let outcome = agent.wait(&id);
        assert_eq!((outcome.stdout.as_slice(), &outcome.head["exit_code"]), (b"only this".as_slice(), &json!(0)));
    }
}

#[test]
fn input_that_a_program_refuses_is_cancelled_and_counted() {
    let mut agent = Agent::new();
    let stream = agent.new_stream();
    agent.start("x1", &["/bin/sh", "-c", "exec 0<&-; sleep 1000"], &json!({"stdin": true}));
    let feeding = agent.ask(&json!({"op": "exec.input", "id": "x1", "s": stream}));
    let block = vec![b'x'; 1 << 20];
    while agent.feed(stream, &block) {}
    let bytes = agent.answer(feeding).head["bytes"].as_u64().expect("a count");
    assert!(bytes <= 64 << 10, "{bytes} is more than the pipe holds");
}

#[test]
fn fault_16_22_argv_and_variables_pass_no_shell() {
    let mut agent = Agent::new();
    let odd = ["a b", "$(id)", "`id`", ";", "'", "\"", "\\", "*", "-n", "", "x\ny", "ü"];
    let argv: Vec<&str> = ["/usr/bin/printf", "%s\\n"].into_iter().chain(odd).collect();
    let expected: String = odd.iter().map(|word| format!("{word}\n")).collect();
    assert_eq!(agent.exec(&argv, &json!({})).text(), expected);
    let environ = json!({"ODD": "a b;$(id)'\"\n", "EMPTY": "", "PATH": "/usr/bin:/bin"});
    let outcome = agent.exec(&["/usr/bin/printenv", "ODD", "EMPTY"], &json!({"environ": environ}));
    assert_eq!(outcome.text(), "a b;$(id)'\"\n\n\n");
    for environ in [json!({"": "x"}), json!({"A=B": "x"}), json!({"A": "x\0y"})] {
        let error = agent.refuse(&json!({"op": "exec.start", "id": "bad", "argv": ["true"], "environ": environ}));
        assert_eq!(error["code"], "invalid_request");
    }
    let heredoc = "cat <<'END'\n$HOME `id`\nEND\n";
    assert_eq!(agent.shell(heredoc).text(), "$HOME `id`\n");
}

#[test]
fn fault_17_what_cannot_start_says_so_at_once() {
    let mut agent = Agent::new();
    let (text, script) = (agent.path("text"), agent.path("script"));
    std::fs::write(&text, "true\n").expect("a file");
    std::fs::write(&script, "true\n").expect("a file");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a program");
    let mut start = |members: serde_json::Value| {
        let mut head = json!({"op": "exec.start", "id": "x1", "argv": ["true"]});
        head.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        let error = agent.refuse(&head);
        (error["code"].clone(), error["details"]["what"].clone(), error["details"]["errno"].clone())
    };
    let failed = |what: &str, errno: i32| (json!("exec_failed"), json!(what), json!(errno));
    assert_eq!(start(json!({"argv": ["no-such-program"]})), failed("program", libc::ENOENT));
    assert_eq!(start(json!({"argv": [text]})), failed("program", libc::EACCES));
    // A script without a first line that names its shell is given to none.
    assert_eq!(start(json!({"argv": [script]})), failed("program", libc::ENOEXEC));
    assert_eq!(start(json!({"argv": ["/usr"]})), failed("program", libc::EACCES));
    assert_eq!(start(json!({"cwd": "/no/such"})), failed("cwd", libc::ENOENT));
    assert_eq!(start(json!({"cwd": "/etc/passwd"})), failed("cwd", libc::ENOTDIR));
    assert_eq!(start(json!({"user": "nobody-known"})), failed("user", libc::EINVAL));
    assert!(agent.listed("x1").is_none());
    assert_eq!(agent.exec(&["true"], &json!({})).head["exit_code"], 0);
}

#[test]
fn fault_19_20_a_program_is_known_by_id_before_and_after_its_end() {
    let mut agent = Agent::new();
    let started = agent.start("x1", &["/bin/sh", "-c", "read line; echo $line; exit 5"], &json!({"stdin": true}));
    let again = agent.start("x1", &["/bin/sh", "-c", "read line; echo $line; exit 5"], &json!({"stdin": true}));
    assert_eq!((&again["pid"], &again["repeated"]), (&started["pid"], &json!(true)));
    let listed = agent.listed("x1").expect("listed");
    assert_eq!((&listed["state"], &listed["pid"]), (&json!("running"), &started["pid"]));
    let stream = agent.new_stream();
    agent.ask(&json!({"op": "exec.input", "id": "x1", "s": stream}));
    agent.feed(stream, b"word\n");
    assert_eq!(agent.wait("x1").head["exit_code"], 5);
    assert_eq!(agent.listed("x1").expect("remembered")["exit_code"], 5);
    let stream = agent.new_stream();
    agent.expect(&json!({"op": "exec.attach", "id": "x1", "stdout": stream, "from": "start"}));
    assert_eq!(agent.drain(stream), (b"word\n".to_vec(), json!({"s": stream, "end": true})));
    agent.expect(&json!({"op": "exec.forget", "id": "x1"}));
    assert_eq!(agent.refuse(&json!({"op": "exec.wait", "id": "x1"}))["code"], "exec_not_found");
}

#[test]
fn fault_21_a_signal_is_told_as_one() {
    let mut agent = Agent::new();
    let outcome = agent.shell("kill -SEGV $$");
    assert_eq!((&outcome.head["exit_code"], &outcome.head["signal"]), (&json!(null), &json!("SEGV")));
    agent.start("x1", &["/bin/sleep", "1000"], &json!({}));
    assert_eq!(agent.expect(&json!({"op": "exec.signal", "id": "x1", "signal": "SIGINT"}))["signalled"], 1);
    assert_eq!(agent.wait("x1").head["signal"], "INT");
    assert_eq!(agent.refuse(&json!({"op": "exec.signal", "id": "x1", "signal": "9"}))["code"], "invalid_request");
}

#[test]
fn fault_21_the_program_that_takes_the_memory_is_killed_and_called_so() {
    let mut agent = Agent::started(&json!({"memory_bytes": 256 << 20}));
    agent.start("small", &["/bin/sleep", "1000"], &json!({}));
    let script = "x = []\nwhile True: x.append(bytearray(b'1' * (4 << 20)))";
    // Four times the limit ends it otherwise.
    let argv = ["/bin/sh", "-c", "ulimit -v 1048576; exec /usr/bin/python3 -c \"$0\"", script];
    let outcome = agent.exec(&argv, &json!({}));
    assert_eq!((&outcome.head["oom_killed"], &outcome.head["signal"]), (&json!(true), &json!("KILL")));
    assert_eq!(outcome.head["timed_out"], false);
    assert_eq!(agent.listed("small").expect("listed")["state"], "running");
}

#[test]
fn memory_that_forks_share_counts_once() {
    let mut agent = Agent::started(&json!({"memory_bytes": 256 << 20}));
    let script = "import os, time\nx = bytearray(b'1' * (100 << 20))\nfor _ in range(4):\n  if os.fork() == 0: time.sleep(0.5); os._exit(0)\ntime.sleep(0.6); print(len(x))";
    let outcome = agent.exec(&["/usr/bin/python3", "-c", script], &json!({}));
    assert_eq!((outcome.text().as_str(), &outcome.head["oom_killed"]), ("104857600\n", &json!(false)));
}

#[test]
fn sixty_four_execs_at_once_keep_their_outputs_apart() {
    let mut agent = Agent::new();
    let script = "for i in 1 2 3 4 5 6 7 8; do echo $0 $i; done; exit $(($0 % 50))";
    let starts: Vec<u32> = (0..64)
        .map(|number| {
            let argv = ["/bin/sh", "-c", script, &number.to_string()];
            agent.ask(&json!({"op": "exec.start", "id": format!("x{number}"), "argv": argv}))
        })
        .collect();
    for start in starts {
        assert_eq!(agent.answer(start).head["ok"], true);
    }
    for number in 0..64 {
        let outcome = agent.wait(&format!("x{number}"));
        let expected: String = (1..=8).map(|line| format!("{number} {line}\n")).collect();
        assert_eq!((outcome.text(), &outcome.head["exit_code"]), (expected, &json!(number % 50)));
    }
}

#[test]
fn a_terminal_has_one_output_a_size_and_signals() {
    let mut agent = Agent::new();
    let script = "stty -echo; stty size; echo ready; trap 'stty size; exit 3' WINCH; while :; do sleep 0.02; done";
    let stream = agent.new_stream();
    let tty = json!({"tty": {"rows": 30, "columns": 100}, "stdin": true, "stdout": stream});
    agent.start("x1", &["/bin/bash", "-c", script], &tty);
    agent.wait_bytes(stream, b"30 100\r\nready\r\n".len());
    agent.until(|agent| {
        agent.request(&json!({"op": "exec.resize", "id": "x1", "rows": 40, "columns": 120}));
        agent.request(&json!({"op": "exec.resize", "id": "x1", "rows": 41, "columns": 120}));
        agent.listed("x1").filter(|exec| exec["exit_code"] == 3)
    });
    let (output, _) = agent.drain(stream);
    let text = String::from_utf8(output).expect("text");
    assert!(text.starts_with("30 100\r\nready\r\n4"), "{text}");
    let outcome = agent.wait("x1");
    assert_eq!((&outcome.head["stderr"], &outcome.head["exit_code"]), (&json!(null), &json!(3)));
    let stream = agent.new_stream();
    agent.start("x2", &["/bin/cat"], &json!({"tty": {"rows": 1, "columns": 1}, "stdin": true}));
    agent.ask(&json!({"op": "exec.input", "id": "x2", "s": stream}));
    agent.feed(stream, b"line\n");
    agent.end(stream);
    assert_eq!(agent.wait("x2").head["exit_code"], 0);
}

#[test]
fn a_fork_bomb_ends_with_its_deadline() {
    if !is_root("a fork bomb under a uid of its own") {
        return;
    }
    let mut agent = Agent::new();
    let script = "ulimit -u 80; bomb() { bomb | bomb & }; while :; do bomb; done";
    let members = json!({"user": format!("{NOBODY}:{NOBODY}"), "cwd": "/", "timeout_ms": 600, "grace_ms": 50});
    let outcome = agent.exec(&["/bin/bash", "-c", script], &members);
    assert_eq!((&outcome.head["timed_out"], &outcome.head["left"]), (&json!(true), &json!([])));
    let outcome = agent.exec(&["/bin/sh", "-c", &format!("ps -u {NOBODY} -o pid= | wc -l")], &json!({}));
    assert_eq!(outcome.text().trim(), "0");
}

#[test]
fn a_killed_keeper_is_a_lost_exec_and_leaves_nothing() {
    let mut agent = Agent::new();
    let stream = agent.new_stream();
    let script = "setsid sleep 1000 & echo $! $$; sleep 1000";
    let started = agent.start("x1", &["/bin/sh", "-c", script], &json!({"stdout": stream}));
    let line = agent.until(|agent| {
        agent.take();
        agent
            .streams
            .get(&stream)
            .filter(|incoming| incoming.bytes.ends_with(b"\n"))
            .map(|incoming| incoming.bytes.clone())
    });
    let left = pids(&String::from_utf8(line).expect("text"));
    let keeper = std::fs::read_to_string(format!("/proc/{}/stat", started["pid"])).expect("its stat");
    let keeper: i32 = keeper
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().nth(1))
        .expect("a parent")
        .parse()
        .expect("a pid");
    // SAFETY: takes numbers only; the keeper is a child of our own agent.
    assert_eq!(unsafe { libc::kill(keeper, libc::SIGKILL) }, 0);
    let outcome = agent.wait("x1");
    assert_eq!((&outcome.head["state"], &outcome.head["exit_code"]), (&json!("lost"), &json!(null)));
    agent.until(|_| left.iter().all(|&pid| !is_alive(pid)).then_some(()));
}

#[test]
fn what_an_agent_started_ends_with_it() {
    let mut agent = Agent::new();
    let outcome = agent.shell("setsid sleep 1000 & echo $!");
    let daemon = pids(&outcome.text())[0];
    agent.process.kill().expect("the agent");
    agent.until(|_| (!is_alive(daemon)).then_some(()));
}

#[test]
fn stop_ends_everything_and_answers() {
    let mut agent = Agent::new();
    let outcome = agent.shell("setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done' & echo $!");
    agent.start("x2", &["/bin/sleep", "1000"], &json!({}));
    let waiting = agent.ask(&json!({"op": "exec.wait", "id": "x2"}));
    agent.expect(&json!({"op": "stop", "ms": 100}));
    assert_eq!(agent.answer(waiting).head["signal"], "TERM");
    assert_eq!(agent.process.wait().expect("an exit").code(), Some(0));
    assert!(!is_alive(pids(&outcome.text())[0]));
}
