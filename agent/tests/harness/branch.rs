//! Requests that copy environments.

use super::{Agent, Batch, merged, program, python};
use serde_json::{Value, json};

impl Agent {
    /// The first phase; its reply, whatever it is.
    pub fn branch(&mut self, kind: &str, pairs: Value, changes: Value) -> Value {
        let head = json!({"op": "branch", "kind": kind, "pairs": pairs, "reseed": null, "reseed_derived": false});
        self.request(&merged(head, &changes), b"").head
    }

    /// The first phase, which has to be accepted.
    pub fn hold(&mut self, kind: &str, pairs: Value, changes: Value) -> Value {
        let reply = self.branch(kind, pairs, changes);
        assert_eq!(reply["ok"], true, "branch: {reply}");
        reply["way"].clone()
    }

    /// The second phase; its reply, whatever it is.
    pub fn settle(&mut self, changes: Value) -> super::Frame {
        let seq = self.next_seq();
        self.request(&merged(json!({"op": "settle", "seq": seq, "encoding": "json"}), &changes), b"")
    }

    /// Sends a request while another one waits for its reply; the reply to this one.
    pub fn request_between(&mut self, head: &Value) -> Value {
        let sequence = self.send(head, b"");
        self.reply(sequence).head
    }

    /// Rows become copies of rows.
    pub fn fork(&mut self, pairs: Value) -> Batch {
        self.hold("fork", pairs, json!({}));
        Batch::of(self.settle(json!({})))
    }

    /// Rows become copies of states.
    pub fn restore(&mut self, pairs: Value) -> Batch {
        self.hold("restore", pairs, json!({}));
        Batch::of(self.settle(json!({})))
    }

    /// States become copies of rows.
    pub fn save(&mut self, pairs: Value) -> Value {
        self.hold("save", pairs, json!({}));
        let reply = self.settle(json!({})).head;
        assert_eq!(reply["ok"], true, "settle: {reply}");
        reply["states"].clone()
    }

    /// What stands in the way of a copy, by source.
    pub fn refused(&mut self, kind: &str, pairs: Value) -> Value {
        let reply = self.branch(kind, pairs, json!({}));
        assert_eq!(reply["error"]["code"], "fork_unsupported", "branch: {reply}");
        reply["error"]["details"]["sources"].clone()
    }

    /// Ends states.
    pub fn drop_states(&mut self, slots: Value) {
        assert_eq!(self.request(&json!({"op": "drop", "slots": slots}), b"").head, json!({"ok": true}));
    }

    /// What each row answers to a call without arguments.
    pub fn ask(&mut self, name: &str) -> Value {
        self.call(name, json!({"args": [], "kwargs": {}}), json!({})).column("results")
    }

    /// Adds a number to the total of each row; the totals.
    pub fn add(&mut self, numbers: Value) -> Vec<i64> {
        totals(&self.step(numbers, json!({})))
    }

    /// The same for all rows with nothing added.
    pub fn look(&mut self, rows: usize) -> Vec<i64> {
        self.add(json!(vec![0; rows]))
    }

    /// Waits for an event.
    pub fn event(&mut self, name: &str) -> Value {
        loop {
            if let Some(place) = self.events.iter().position(|event| event["event"] == name) {
                return self.events.remove(place);
            }
            let frame = self.frame().expect("a frame");
            let other = self.set_event_aside(frame);
            assert!(other.is_none(), "expected the event {name}");
        }
    }
}

/// The observations of a batch.
pub fn totals(batch: &Batch) -> Vec<i64> {
    let column = batch.column("obs");
    column.as_array().expect("observations").iter().map(|total| total.as_f64().expect("a number") as i64).collect()
}

/// Kills a process by what an environment says its pid is.
pub fn kill(pid: &Value) {
    let pid = pid.as_i64().expect("a pid") as i32;
    // SAFETY: takes numbers only.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0, "kill {pid}");
}

/// True while a process has not ended.
pub fn lives(pid: &Value) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// True once the agent has taken in that a process ended.
pub fn is_reaped(pid: &Value) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

impl Agent {
    /// Processes whose parent is the agent.
    pub fn children(&self) -> Vec<Value> {
        let agent = self.process.id().to_string();
        let entries = std::fs::read_dir("/proc").expect("processes").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i64>().ok());
        let ours = pids.filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(agent.as_str())
        });
        ours.map(Value::from).collect()
    }

    /// Holds copies, and gives the pids of those.
    pub fn held(&mut self, kind: &str, pairs: Value) -> Vec<Value> {
        let before = self.children();
        self.hold(kind, pairs, json!({}));
        self.children().into_iter().filter(|pid| !before.contains(pid)).collect()
    }
}

/// A started shard of environments that can be copied.
pub fn twins(settings: Value, count: u32, changes: Value) -> Agent {
    let path = program("twin.py");
    let text = settings.to_string();
    Agent::started(&python(&path, &[&text]), count, merged(json!({"way": "auto"}), &changes)).0
}
