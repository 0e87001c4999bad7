//! Who programs are, and ports they listen on.

mod machine;

use machine::{Agent, NOBODY, is_root};
use serde_json::json;

const STATUS: &str = "grep -E '^(Uid|Gid|Groups|NoNewPrivs|Cap...):' /proc/self/status; ls /proc/self/fd | tr '\\n' ' '; pwd; echo $HOME";

fn field(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the field");
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_program_is_its_user_in_every_way() {
    if !is_root("programs of several users") {
        return;
    }
    let mut agent = Agent::new();
    let outcome = agent.exec(&["/bin/sh", "-c", STATUS], &json!({"user": format!("{NOBODY}:77")}));
    let text = outcome.text();
    assert_eq!(field(&text, "Uid:"), format!("{NOBODY} {NOBODY} {NOBODY} {NOBODY}"));
    assert_eq!((field(&text, "Gid:"), field(&text, "Groups:")), ("77 77 77 77".to_owned(), "77".to_owned()));
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(&text, set), "0000000000000000", "{set}");
    }
    assert!(text.ends_with("/\n/\n"), "{text}");
    let daemon = agent.exec(&["/usr/bin/id"], &json!({"user": "daemon"}));
    assert_eq!(daemon.text(), "uid=1(daemon) gid=1(daemon) groups=1(daemon)\n");
    for odd in ["0x0", "+0", "", "1000:", ":0", "-1", "4294967295", "root:root", " root", "root\0"] {
        let error = agent.refuse(&json!({"op": "exec.start", "id": "odd", "argv": ["true"], "user": odd}));
        assert_eq!((&error["code"], &error["details"]["what"]), (&json!("exec_failed"), &json!("user")), "{odd:?}");
    }
}

#[test]
fn without_privileges_root_has_none_and_gets_none() {
    if !is_root("taking capabilities from root") {
        return;
    }
    let mut agent = Agent::started(&json!({"unprivileged": true}));
    let text = agent.exec(&["/bin/sh", "-c", STATUS], &json!({})).text();
    assert_eq!((field(&text, "NoNewPrivs:"), field(&text, "CapEff:")), ("1".to_owned(), "0000000000000000".to_owned()));
    assert_eq!(field(&text, "CapPrm:"), "0000000000000000");
    let mut agent = Agent::new();
    let text = agent.exec(&["/bin/sh", "-c", STATUS], &json!({})).text();
    assert_eq!(field(&text, "NoNewPrivs:"), "0");
}

#[test]
fn a_program_has_three_descriptors_and_no_other_folder() {
    let mut agent = Agent::new();
    let outcome = agent.exec(&["/bin/ls", "/proc/self/fd"], &json!({"stdin": true, "cwd": "/usr"}));
    // The fourth is the listing's own.
    assert_eq!(outcome.text(), "0\n1\n2\n3\n");
    for number in 0..64 {
        let cwd = format!("/proc/self/fd/{number}");
        let error = agent.refuse(&json!({"op": "exec.start", "id": "odd", "argv": ["true"], "cwd": cwd}));
        assert_eq!(error["details"]["what"], "cwd", "{cwd}");
    }
    assert_eq!(agent.exec(&["/bin/pwd"], &json!({"cwd": "/usr/../usr/bin"})).text(), "/usr/bin\n");
}

#[test]
fn an_ordinary_user_runs_programs_as_itself_only() {
    if !is_root("an agent of another user") {
        return;
    }
    let mut agent = Agent::of_user(NOBODY);
    let own = format!("{NOBODY}:{NOBODY}");
    for user in [json!(null), json!(own)] {
        assert_eq!(agent.exec(&["/usr/bin/id", "-u"], &json!({"user": user})).text(), format!("{NOBODY}\n"));
    }
    let error = agent.refuse(&json!({"op": "exec.start", "id": "odd", "argv": ["true"], "user": "0"}));
    assert_eq!((&error["details"]["what"], &error["details"]["errno"]), (&json!("user"), &json!(libc::EPERM)));
    let script = "trap '' TERM; setsid sleep 1000 & sleep 1000 & sleep 1000";
    let outcome = agent.exec(&["/bin/sh", "-c", script], &json!({"timeout_ms": 300, "grace_ms": 50}));
    assert_eq!((&outcome.head["timed_out"], &outcome.head["left"]), (&json!(true), &json!([])));
    let tty = agent.exec(&["/usr/bin/tty"], &json!({"tty": {"rows": 1, "columns": 1}}));
    assert!(tty.text().starts_with("/dev/pts/"), "{}", tty.text());
    assert_eq!(agent.refuse(&json!({"op": "file.remove", "path": "/etc/passwd"}))["code"], "permission_denied");
}

#[test]
fn a_port_is_dialled_listed_and_half_closed() {
    let mut agent = Agent::new();
    let script = "
import socket, sys
server = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
print(server.getsockname()[1], flush=True)
peer = server.accept()[0]
data = b''
while (part := peer.recv(65536)): data += part
peer.sendall(data[::-1]); peer.close()";
    for address in ["127.0.0.1", "::1"] {
        let (output, input, out) = (agent.new_stream(), agent.new_stream(), agent.new_stream());
        let id = format!("server{output}");
        let started = agent.start(&id, &["/usr/bin/python3", "-c", script, address], &json!({"stdout": output}));
        let line = loop {
            let bytes = agent.wait_bytes(output, 2);
            if bytes.ends_with(b"\n") {
                break String::from_utf8(bytes).expect("text");
            }
            agent.take();
        };
        let port: u16 = line.trim().parse().expect("a port");
        let listed = agent.expect(&json!({"op": "port.list"}));
        let entry = json!({"port": port, "pid": started["pid"]});
        assert!(listed["ports"].as_array().expect("ports").contains(&entry), "{listed}");
        agent.expect(&json!({"op": "port.dial", "port": port, "in": input, "out": out}));
        let bytes = machine::pattern(3_000_000);
        agent.feed(input, &bytes);
        agent.end(input);
        let (came, end) = agent.drain(out);
        assert!(came.iter().eq(bytes.iter().rev()), "{} bytes came", came.len());
        assert_eq!(end["end"], true);
        assert_eq!(agent.wait(&id).head["exit_code"], 0);
        let error = agent.refuse(&json!({"op": "port.dial", "port": port, "in": 800, "out": 801}));
        assert_eq!((&error["code"], &error["details"]["errno"]), (&json!("port_refused"), &json!(libc::ECONNREFUSED)));
    }
    assert_eq!(agent.refuse(&json!({"op": "port.dial", "port": 0, "in": 800, "out": 801}))["code"], "invalid_request");
}

#[test]
fn the_machine_tells_its_shell_and_users() {
    let mut agent = Agent::new();
    let reply = agent.begin(&json!({}));
    assert!(["/bin/bash", "/usr/bin/bash", "/bin/sh"].iter().any(|shell| reply["shell"] == *shell), "{reply}");
    assert_eq!((&reply["users"][0]["name"], &reply["users"][0]["uid"]), (&json!("root"), &json!(0)));
    let other = agent.refuse(&json!({"op": "machine", "id": "other"}));
    assert_eq!(other["code"], "invalid_request");
}
