//! What a program came to.

use super::{Exec, Output};
use crate::machine::{processes, signals};
use serde_json::{Value, json};

/// Processes named as left behind.
const NAMED: usize = 64;

impl Exec {
    /// The outcome of a call that has ended.
    pub(super) fn outcome(&self) -> Value {
        let leader = self.leader.as_ref();
        let mut outcome = json!({
            "id": self.id,
            "state": self.state(),
            "exit_code": leader.and_then(|leader| leader.code),
            "signal": leader.and_then(|leader| leader.signal).map(signals::name),
            "timed_out": self.timed_out,
            "oom_killed": self.oom_killed,
            "duration_ms": leader.map(|leader| leader.duration_ms),
            "stdout": self.stdout.counts(),
            "stderr": Value::Null,
            "left": self.left_behind(),
        });
        if let Some(errors) = &self.stderr {
            outcome["stderr"] = errors.counts();
        }
        outcome
    }

    /// What lives below the keeper, itself not told.
    fn left_behind(&self) -> Value {
        let Some(keeper) = self.keeper.as_ref().filter(|_| self.left) else { return json!([]) };
        let below = processes::descendants(&processes::all(), keeper.pid);
        let entry =
            |process: &processes::Process| json!({"pid": process.pid, "command": processes::command(process.pid)});
        below.iter().take(NAMED).map(entry).collect()
    }
}

impl Output {
    fn counts(&self) -> Value {
        let kept = &self.kept;
        json!({"bytes": kept.total_bytes(), "dropped": kept.dropped_bytes(), "length": kept.length()})
    }
}
