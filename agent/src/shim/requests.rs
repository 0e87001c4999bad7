//! What the worker asks of the shim itself.

use super::runtime;
use super::settings::RuntimeKind;
use super::start::{self, merge};
use super::state::{Asker, Shim, Waiting};
use super::{identity, stop};
use crate::channel::error::RequestError;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A call without a limit of its own.
const CALL_LIMIT_MS: u64 = 600_000;

const THAW_LIMIT: Duration = Duration::from_secs(10);
/// Connections are counted from 1.
const NOBODY: Asker = (0, 0);

#[derive(Deserialize)]
struct RuntimeCall {
    args: Vec<String>,
    timeout_ms: Option<u64>,
}

/// Answers at once, or remembers who asked.
pub fn take(shim: &mut Shim, asker: Asker, head: Value) {
    match head["op"].as_str().unwrap_or_default() {
        "shim.status" => {
            let mut reply = json!({"ok": true});
            merge(&mut reply, shim.status());
            shim.answer(asker, &reply);
        }
        "shim.create" => {
            start::create(shim);
            shim.answer(asker, &json!({"ok": true}));
        }
        "shim.kill" => {
            shim.askers.push(asker);
            kill(shim);
        }
        "shim.stop" => {
            shim.askers.push(asker);
            stop::ask(shim, head["ms"].as_u64().unwrap_or(shim.settings.stop_ms));
        }
        "shim.runtime" => {
            if let Err(error) = call(shim, asker, head) {
                refuse(shim, asker, &error);
            }
        }
        "shim.restore" => match start::restore(shim, head["folder"].as_str().unwrap_or_default()) {
            Ok(()) => shim.answer(asker, &json!({"ok": true})),
            Err(error) => refuse(shim, asker, &error),
        },
        other => {
            let message = format!(
                "received {other:?}, expected shim.status, shim.create, shim.restore, shim.kill, shim.stop or shim.runtime"
            );
            refuse(shim, asker, &RequestError::invalid(message));
        }
    }
}

/// Ends the sandbox, or what would become one.
pub fn kill(shim: &mut Shim) {
    match &shim.sandbox {
        Some(sandbox) => {
            identity::kill(&sandbox.process);
            thaw(shim);
        }
        None => shim.ended = Some(shim.ended.unwrap_or_default()),
    }
}

/// A process of a frozen cgroup dies only when it is thawed, which the runtime's own kill does.
fn thaw(shim: &mut Shim) {
    let (Some(spaces), RuntimeKind::Runc) = (&shim.spaces, shim.settings.runtime.kind) else { return };
    let arguments = ["kill".into(), shim.settings.id.clone(), "KILL".into()];
    if let Ok(call) = runtime::call(&shim.settings, spaces, &arguments, None) {
        shim.calls.push(Waiting { call, deadline: Instant::now() + THAW_LIMIT, asker: Some(NOBODY) });
    }
}

fn call(shim: &mut Shim, asker: Asker, head: Value) -> Result<(), RequestError> {
    let wanted: RuntimeCall =
        serde_json::from_value(head).map_err(|error| RequestError::invalid(format!("shim.runtime: {error}")))?;
    let Some(spaces) = &shim.spaces else {
        let message = "the machine's namespaces are gone: their holder was killed, and so was the shim";
        return Err(RequestError::new("machine_lost", message).with_hint("save what can be saved and delete it"));
    };
    let call = runtime::call(&shim.settings, spaces, &wanted.args, None)
        .map_err(|error| RequestError::new("runtime_failed", format!("the runtime could not be run: {error}")))?;
    let limit = Duration::from_millis(wanted.timeout_ms.unwrap_or(CALL_LIMIT_MS));
    shim.calls.push(Waiting { call, deadline: Instant::now() + limit, asker: Some(asker) });
    Ok(())
}

fn refuse(shim: &mut Shim, asker: Asker, error: &RequestError) {
    let head = serde_json::from_slice(&error.head()).unwrap_or(Value::Null);
    shim.answer(asker, &head);
}
