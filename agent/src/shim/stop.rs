//! The end of a machine: asked for, or met.

use super::connection::encode;
use super::identity::write_whole;
use super::state::{Ended, Shim};
use super::{leftovers, requests, runtime};
use crate::channel::frame::Kind;
use serde_json::json;
use std::time::{Duration, Instant};

/// What a stop may take beyond the time its programs are given.
const STOP_MARGIN: Duration = Duration::from_secs(3);
const DELETE_LIMIT: Duration = Duration::from_secs(10);
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// Asks the agent to end its programs and itself; after the time it is killed.
pub fn ask(shim: &mut Shim, ms: u64) {
    if shim.started_at.is_none() {
        return requests::kill(shim);
    }
    // Number 0 is nobody's request: the agent's reply goes by unheeded.
    shim.to_agent.end().extend(encode(0, Kind::Request, &json!({"op": "stop", "ms": ms})));
    shim.stop_by = Some(Instant::now() + Duration::from_millis(ms) + STOP_MARGIN);
}

/// The sandbox has ended: removes all that is left of it, then says so.
pub fn finish(shim: &mut Shim, ended: Ended) {
    let exit = shim.exit(ended);
    delete_container(shim);
    let left = leftovers::end_all(&shim.settings, &shim.folder, KILL_LIMIT);
    if !left.is_empty() {
        shim.ring.write(format!("sandpool-shim: processes {left:?} could not be killed\n").as_bytes());
    }
    let _ = write_whole(&shim.folder.join("exit.json"), exit.to_string().as_bytes());
    for asker in std::mem::take(&mut shim.askers) {
        shim.answer(asker, &json!({"ok": true, "exit": exit, "left": left}));
    }
    let mut event = json!({"event": "exit"});
    super::start::merge(&mut event, exit);
    shim.tell(0, Kind::Event, &event);
}

/// The runtime forgets the container. Where its namespaces are gone its folder is removed with the machine's.
fn delete_container(shim: &Shim) {
    let Some(spaces) = &shim.spaces else { return };
    let arguments = ["delete".into(), "--force".into(), shim.settings.id.clone()];
    let Ok(mut call) = runtime::call(&shim.settings, spaces, &arguments, None) else { return };
    let deadline = Instant::now() + DELETE_LIMIT;
    while matches!(call.child.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            let _ = call.child.kill();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
