//! An agent in a container, with environments that run the code they are given.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::bundle::{Bundle, Container};
use super::harness::{Agent, Batch, merged};

const ENVIRONMENT: &str = r#"
import os, stat, subprocess, sys, threading
from sandpool.env import serve

def name_of(pid):
    try:
        return open(f"/proc/{pid}/comm").read().strip()
    except OSError:
        return ""

def start_sleepers(count):
    "Programs that leave the session of whoever started them; each runs when this returns."
    for _ in range(count):
        subprocess.Popen(["setsid", "--fork", "sleep", "600"]).wait()
    while [name_of(pid) for pid in os.listdir("/proc") if pid.isdigit()].count("sleep") < count:
        pass

class Environment:
    def reset(self, seed=None, options=None):
        self.names = dict(globals())
        return "reset", {}

    def step(self, action):
        return str(action), 0.0, False, False, {}

    def run(self, code):
        self.names["out"] = None
        exec(code, self.names)
        return self.names["out"]

serve(make=lambda index, config: Environment())
"#;

/// A shard whose process 1 is the agent.
pub struct Contained {
    agent: Agent,
    bundle: Bundle,
    /// The host's id of the container's root.
    first_uid: u32,
}

impl Contained {
    /// `count` rows with a memory group each.
    pub fn start(count: u32, changes: Value) -> Self {
        let container = Container { memory: Some((count as usize, 256 << 20)), filter: true, ..Container::default() };
        let groups = json!({"memory_dir": "/run/memory", "states_memory": "/run/memory/states"});
        Self::start_in(&container, count, merged(groups, &changes))
    }

    pub fn start_in(container: &Container, count: u32, changes: Value) -> Self {
        let bundle = Bundle::make(container, Path::new(env!("CARGO_BIN_EXE_sandpool-agent")), &[]);
        fs::write(bundle.folder.join("env/env.py"), ENVIRONMENT).expect("the environment");
        let mut command = Command::new("runc");
        command.arg("--root").arg(bundle.folder.join("state")).args(["run", "--preserve-fds", "1", "--bundle"]);
        command.arg(&bundle.folder).arg(&bundle.name).stdin(Stdio::null()).stdout(Stdio::null());
        let agent = Agent::run(command, bundle.folder.join("nothing"));
        let isolated = json!({
            "isolated": true, "way": "fork", "cwd": "/env", "memory_bytes": 1u64 << 30, "workspaces": null,
            "environ": {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        });
        let argv = ["/usr/bin/python3", "-u", "/env/env.py"];
        let (agent, _) = agent.start(&argv, count, merged(isolated, &changes));
        let config = fs::read(bundle.folder.join("config.json")).expect("config.json");
        let config: Value = serde_json::from_slice(&config).expect("JSON");
        let first_uid = config["linux"]["uidMappings"][0]["hostID"].as_u64().expect("a uid") as u32;
        Self { agent, bundle, first_uid }
    }

    /// Runs code in these rows; what each leaves in `out`.
    pub fn run(&mut self, rows: Value, code: &str) -> Value {
        let batch = self.agent.call("run", json!({"args": [code], "kwargs": {}}), json!({"rows": rows}));
        assert_eq!(batch.head["failed"], json!([]), "{}", batch.text("infos"));
        batch.column("results")
    }

    /// Ids in the container of the processes in a memory group, as real uids.
    pub fn members(&self, group: &str) -> Vec<u32> {
        let text = fs::read_to_string(self.group(group).join("cgroup.procs")).expect("a memory group");
        let mut uids: Vec<u32> = text.lines().filter_map(|pid| self.uid_of(pid)).collect();
        uids.sort_unstable();
        uids
    }

    fn uid_of(&self, pid: &str) -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let ended = status.contains("\nState:\tZ") || status.contains("\nState:\tX");
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?;
        (!ended).then(|| uid.parse::<u32>().expect("a uid") - self.first_uid)
    }

    /// Who may enter a memory group, as a gid in the container.
    pub fn entrants(&self, group: &str) -> u32 {
        let status = fs::metadata(self.group(group).join("cgroup.procs")).expect("a memory group");
        std::os::unix::fs::MetadataExt::gid(&status) - self.first_uid
    }

    fn group(&self, name: &str) -> PathBuf {
        Path::new("/sys/fs/cgroup/memory").join(&self.bundle.name).join(name)
    }

    /// Waits until the processes of a memory group are those.
    pub fn await_members(&mut self, group: &str, wanted: &[u32]) {
        for _ in 0..2000 {
            if self.members(group) == wanted {
                return;
            }
            self.agent.status();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("{group} has {:?}, expected {wanted:?}", self.members(group));
    }

    /// A fork, and nothing of it failed.
    pub fn copy(&mut self, pairs: Value) -> Batch {
        let batch = self.agent.fork(pairs);
        assert_eq!(batch.head["failed"], json!([]), "{}", batch.text("infos"));
        batch
    }
}

impl Deref for Contained {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        &self.agent
    }
}

impl DerefMut for Contained {
    fn deref_mut(&mut self) -> &mut Agent {
        &mut self.agent
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let _ = self.agent.stream.shutdown(std::net::Shutdown::Both);
        let _ = self.agent.process.wait();
        let _ = Command::new("runc")
            .arg("--root")
            .arg(self.bundle.folder.join("state"))
            .args(["delete", "--force"])
            .arg(&self.bundle.name)
            .stderr(Stdio::null())
            .status();
    }
}
