//! The relay mode: TCP on loopback to a unix socket, beside a program.
#![cfg(target_os = "linux")]

#[path = "isolation/probe.rs"]
mod probe;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;

use probe::probe;

/// Talks to the relay's port and prints the answer: bash has TCP built in.
const CLIENT: &str = r#"exec 3<>"/dev/tcp/127.0.0.1/$PORT" && echo "$WORD" >&3 && cat <&3"#;

/// The socket's path, removed when dropped.
struct Server(PathBuf);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A server on a unix socket that answers one line in capitals and closes.
fn server(name: &str) -> Server {
    let path = std::env::temp_dir().join(format!("sandpool-relay-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a socket");
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let mut line = String::new();
            BufReader::new(&connection).read_line(&mut line).expect("a line");
            (&connection).write_all(line.to_uppercase().as_bytes()).expect("a reader");
        }
    });
    Server(path)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

fn relay(launcher: &[&str], socket: &Server, script: &str) -> Command {
    let port = free_port();
    let probe = probe();
    let words = [launcher, &[probe.to_str().expect("text")]].concat();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .args(["relay", "--listen", &format!("127.0.0.1:{port}"), "--unix"])
        .arg(&socket.0)
        .args(["--", "/bin/bash", "-c", script])
        .env("PORT", port.to_string())
        .env("WORD", "hello");
    command
}

fn text(output: &Output) -> (String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_program_reaches_the_socket_through_the_port_and_its_exit_code_is_kept() {
    let output = relay(&[], &server("plain"), &format!("{CLIENT}; exit 7")).output().expect("run");
    assert_eq!(text(&output), ("HELLO\n".into(), String::new()));
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn loopback_is_brought_up_in_a_fresh_network_namespace() {
    let down = Command::new("unshare").args(["--net", "/bin/bash", "-c", CLIENT]).env("PORT", "9").output();
    let down = text(&down.expect("unshare of util-linux")).1;
    assert!(down.contains("unreachable"), "the control found loopback up: {down}");
    let output = relay(&["unshare", "--net"], &server("namespace"), CLIENT).output().expect("run");
    assert_eq!(text(&output).0, "HELLO\n");
}

#[test]
fn several_connections_at_once_each_have_a_socket_of_their_own() {
    let script = r#"for word in a b c d; do
        ( exec 3<>"/dev/tcp/127.0.0.1/$PORT"; echo $word >&3; cat <&3 ) &
    done; wait"#;
    let output = relay(&[], &server("several"), script).output().expect("run");
    let mut words: Vec<_> = text(&output).0.lines().map(str::to_owned).collect();
    words.sort();
    assert_eq!(words, ["A", "B", "C", "D"]);
}

#[test]
fn without_the_socket_a_connection_ends_and_the_program_goes_on() {
    let missing = Server(std::env::temp_dir().join("sandpool-relay-missing"));
    let output = relay(&[], &missing, &format!("{CLIENT}; echo after")).output().expect("run");
    let (out, errors) = text(&output);
    assert!(out.ends_with("after\n"), "{out}");
    assert!(errors.contains("cannot reach") && errors.contains("No such file"), "{errors}");
}

#[test]
fn a_signal_is_passed_on_and_death_by_signal_is_told_as_128_and_its_number() {
    let script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done";
    let mut running = relay(&[], &server("signal"), script).stdout(Stdio::piped()).spawn().expect("run");
    let mut ready = [0; 6];
    running.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("ready");
    // SAFETY: takes numbers only; the child is not reaped yet.
    unsafe { libc::kill(running.id().cast_signed(), libc::SIGTERM) };
    assert_eq!(running.wait().expect("ended").code(), Some(9));
    let killed = relay(&[], &server("killed"), "kill -9 $$").output().expect("run");
    assert_eq!(killed.status.code(), Some(128 + 9));
}

#[test]
fn a_wrong_command_line_is_answered_with_the_usage() {
    let output = Command::new(probe()).args(["relay", "--listen", "here"]).output().expect("run");
    let errors = text(&output).1;
    assert_eq!(output.status.code(), Some(64));
    assert!(errors.contains("--listen is \"here\"") && errors.contains("usage: "), "{errors}");
}
