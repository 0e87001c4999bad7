//! `exec.list`

use super::Exec;
use crate::machine::run::{Answered, Machine};
use crate::machine::signals;
use serde_json::{Value, json};

impl Machine {
    /// Running, detached and finished execs, oldest first.
    pub(in crate::machine) fn exec_list(&self) -> Answered {
        let execs: Vec<Value> = self.execs.all().filter(|exec| exec.starting.is_none()).map(Exec::describe).collect();
        Answered::now(json!({"execs": execs}))
    }
}

impl Exec {
    fn describe(&self) -> Value {
        let described = &self.described;
        let leader = self.leader.as_ref();
        json!({
            "id": self.id, "state": self.state(), "pid": self.pid, "argv": described.argv, "cwd": described.cwd,
            "user": described.user, "tty": described.tty, "started_at": described.started_at_ms,
            "timeout_ms": described.timeout_ms,
            "exit_code": leader.and_then(|leader| leader.code),
            "signal": leader.and_then(|leader| leader.signal).map(signals::name),
            "timed_out": self.timed_out, "oom_killed": self.oom_killed,
            "duration_ms": leader.map(|leader| leader.duration_ms),
        })
    }
}
