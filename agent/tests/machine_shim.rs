//! The channel over FIFOs, whose other end is killed and comes back.

use sandpool_agent::channel::frame::{self, HEADER_BYTES, Kind};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Both FIFOs, opened for reading and writing as a shim does.
struct Shim {
    input: File,
    output: File,
}

struct Machine {
    folder: PathBuf,
    process: Child,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Machine {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sandpool-machine-fifo-{}-{name}", std::process::id()));
        // Of an earlier run with the same number that was killed.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        for fifo in ["in", "out"] {
            let made = Command::new("mkfifo").arg(folder.join(fifo)).status().expect("mkfifo");
            assert!(made.success());
        }
        let both = Shim::open(&folder);
        let input = OpenOptions::new().read(true).open(folder.join("in")).expect("a writer is there");
        let output = OpenOptions::new().write(true).open(folder.join("out")).expect("a reader is there");
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandpool-agent"));
        command.arg("machine").stdin(Stdio::from(input)).stdout(Stdio::from(output));
        let process = command.spawn().expect("the agent");
        drop(both);
        Self { folder, process }
    }
}

impl Machine {
    /// Closes a shim's ends and waits until the agent has seen it: it then looks for a new one again and again.
    fn lose(&self, shim: Shim) {
        let before = self.turns();
        drop(shim);
        while self.turns() < before + 20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    fn turns(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("a count");
        line.trim().parse().expect("a number")
    }
}

impl Shim {
    fn open(folder: &std::path::Path) -> Self {
        let open = |name: &str| OpenOptions::new().read(true).write(true).open(folder.join(name)).expect("a FIFO");
        Self { input: open("in"), output: open("out") }
    }

    fn request(&mut self, sequence: u32, head: &Value) -> Value {
        self.input.write_all(&encoded(sequence, head)).expect("the agent reads");
        loop {
            let (came, head) = self.next();
            if came == sequence {
                return head;
            }
        }
    }

    /// The next frame, looked for as a new shim has to.
    fn next(&mut self) -> (u32, Value) {
        let mut header = [0; HEADER_BYTES];
        self.output.read_exact(&mut header).expect("bytes");
        loop {
            if let Some(found) = frame::decode(&header) {
                let mut rest = vec![0; found.head_bytes + found.body_bytes];
                self.output.read_exact(&mut rest).expect("the frame's rest");
                return (found.sequence, serde_json::from_slice(&rest[..found.head_bytes]).unwrap_or(Value::Null));
            }
            header.rotate_left(1);
            self.output.read_exact(&mut header[HEADER_BYTES - 1..]).expect("a byte");
        }
    }
}

fn encoded(sequence: u32, head: &Value) -> Vec<u8> {
    let head = head.to_string().into_bytes();
    [frame::encode(sequence, Kind::Request, &head, 0).as_slice(), &head].concat()
}

#[test]
fn a_shim_killed_in_the_middle_of_a_frame_comes_back() {
    let machine = Machine::new("torn");
    let start = json!({"op": "machine", "id": "m0", "environ": {"PATH": "/usr/bin:/bin"}});
    let mut shim = Shim::open(&machine.folder);
    assert_eq!(shim.request(1, &start)["ok"], true);
    let exec = json!({"op": "exec.start", "id": "x1", "argv": ["/bin/sh", "-c", "echo out; sleep 0.2; exit 6"]});
    let started = shim.request(2, &exec);
    for round in 0..5 {
        // A frame that promises more than ever comes.
        let head = br#"{"op":"file.write","path":"/never","s":9}"#;
        let header = frame::encode(3, Kind::Request, head, 100_000);
        shim.input.write_all(&[header.as_slice(), head, b"half"].concat()).expect("the agent reads");
        machine.lose(shim);
        shim = Shim::open(&machine.folder);
        assert_eq!(shim.request(100 + round, &start)["ok"], true, "round {round}");
    }
    assert_eq!(shim.request(200, &exec)["pid"], started["pid"]);
    let outcome = shim.request(201, &json!({"op": "exec.wait", "id": "x1"}));
    assert_eq!((&outcome["exit_code"], &outcome["stdout"]["bytes"]), (&json!(6), &json!(4)));
}

#[test]
fn what_nobody_reads_does_not_end_the_agent() {
    let machine = Machine::new("unread");
    let start = json!({"op": "machine", "id": "m0", "environ": {"PATH": "/usr/bin:/bin"}});
    let mut shim = Shim::open(&machine.folder);
    assert_eq!(shim.request(1, &start)["ok"], true);
    let flood = json!({"op": "exec.start", "id": "x1", "argv": ["/usr/bin/yes"], "stdout": 5});
    shim.input.write_all(&encoded(2, &flood)).expect("the agent reads");
    let mut some = vec![0; 100_001];
    shim.output.read_exact(&mut some).expect("output");
    machine.lose(shim);
    let mut shim = Shim::open(&machine.folder);
    assert_eq!(shim.request(10, &start)["ok"], true);
    assert_eq!(shim.request(11, &json!({"op": "exec.signal", "id": "x1", "signal": "KILL"}))["signalled"], 1);
    assert_eq!(shim.request(12, &json!({"op": "exec.wait", "id": "x1"}))["signal"], "KILL");
    assert_eq!(shim.request(13, &json!({"op": "stop", "ms": 10}))["ok"], true);
}
