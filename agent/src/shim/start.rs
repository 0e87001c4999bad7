//! From a folder to a running sandbox, or back to one.

use super::identity::Identity;
use super::namespaces::Namespaces;
use super::pipes;
use super::runtime;
use super::saved::State;
use super::state::{Ended, Sandbox, Shim, Waiting, now_ms};
use crate::channel::error::RequestError;
use crate::channel::frame::Kind;
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(60);
/// The memory of a large machine is read from a disk.
const RESTORE_LIMIT: Duration = Duration::from_secs(600);

/// Makes the namespaces and begins the runtime's `create`, a machine with a network only when it is told that the network
/// is set up. A failure becomes the machine's exit.
pub fn begin(shim: &mut Shim) {
    match Namespaces::make(&shim.settings, &shim.folder) {
        Ok(spaces) => shim.spaces = Some(spaces),
        Err(error) => return fail(shim, &error.to_string()),
    }
    if !shim.settings.network {
        create(shim);
    }
}

/// The container's turn. Does nothing where it was created before.
pub fn create(shim: &mut Shim) {
    if shim.creating.is_some() || shim.sandbox.is_some() || shim.ended.is_some() {
        return;
    }
    if let Err(error) = try_create(shim) {
        fail(shim, &error.to_string());
    }
}

fn try_create(shim: &mut Shim) -> io::Result<()> {
    shim.kills_before = shim.memory_kills();
    let spaces = shim.spaces.as_ref().ok_or_else(|| io::Error::other("the namespaces are gone"))?;
    let streams = pipes::for_container(&shim.folder)?;
    shim.creating = Some(runtime::create(&shim.settings, spaces, streams)?);
    Ok(())
}

/// `create` has ended: the container is there and waits for `start`.
pub fn created(shim: &mut Shim, success: bool) {
    shim.creating = None;
    if !success {
        return fail_with_last_words(shim, "create");
    }
    let done = meet(shim).and_then(|()| if shim.settings.restore { Ok(()) } else { begin_start(shim) });
    match done {
        Ok(()) if shim.settings.restore => tell_status(shim),
        Ok(()) => {}
        Err(error) => fail(shim, &error.to_string()),
    }
}

/// The sandbox is there: from now on its end is the machine's.
fn meet(shim: &mut Shim) -> io::Result<()> {
    let file = runtime::pid_file(&shim.settings);
    let pid: i32 = std::fs::read_to_string(&file)?.trim().parse().map_err(io::Error::other)?;
    let gone = || io::Error::other("the sandbox ended before its program was started");
    let identity = Identity::of(pid).ok_or_else(gone)?;
    let process = identity.open().ok_or_else(gone)?;
    identity.write(&sandbox_file(shim))?;
    shim.sandbox = Some(Sandbox { pid, process });
    Ok(())
}

fn begin_start(shim: &mut Shim) -> io::Result<()> {
    let spaces = shim.spaces.as_ref().ok_or_else(|| io::Error::other("the namespaces are gone"))?;
    let call = runtime::call(&shim.settings, spaces, &["start".into(), shim.settings.id.clone()], None)?;
    shim.calls.push(Waiting { call, deadline: Instant::now() + START_LIMIT, asker: None });
    Ok(())
}

/// Puts the state of a folder into the container that waits for it, in the place of a start.
pub fn restore(shim: &mut Shim, folder: &str) -> Result<(), RequestError> {
    let status = shim.status();
    if status["state"] != "created" {
        let message = format!("the machine is {}, expected created, once", status["state"]);
        return Err(RequestError::new("machine_state", message));
    }
    begin_restore(shim, folder.as_ref()).map_err(|error| {
        RequestError::new("runtime_failed", format!("the state in {folder:?} cannot be restored: {error}"))
    })
}

fn begin_restore(shim: &mut Shim, folder: &Path) -> io::Result<()> {
    let spaces = shim.spaces.as_ref().ok_or_else(|| io::Error::other("the namespaces are gone"))?;
    let state = State::open(&shim.folder, folder, false)?;
    let image = format!("--image-path={}", state.place().display());
    let arguments = ["restore".into(), "--detach".into(), image, shim.settings.id.clone()];
    let call = runtime::call(&shim.settings, spaces, &arguments, Some(state))?;
    // What the machine was sent before the instant may lack its end.
    shim.to_agent.end().extend([0; TORN_BYTES]);
    shim.restoring = true;
    shim.calls.push(Waiting { call, deadline: Instant::now() + RESTORE_LIMIT, asker: None });
    tell_status(shim);
    Ok(())
}

/// `start` has ended.
pub fn started(shim: &mut Shim, success: bool, said: &str) {
    if !success {
        let what = if shim.restoring { "restore the state" } else { "start the container" };
        return fail(shim, &format!("the runtime could not {what}: {}", said.trim()));
    }
    shim.restoring = false;
    shim.started_at = Some(now_ms());
    let _ = std::fs::write(started_file(shim), shim.started_at.unwrap_or(0).to_string());
    tell_status(shim);
}

fn tell_status(shim: &mut Shim) {
    let status = shim.status();
    let mut event = json!({"event": "shim"});
    merge(&mut event, status);
    shim.tell(0, Kind::Event, &event);
}

/// Takes over a machine whose shim was killed. What it finds ended, or half started, ends here.
pub fn adopt(shim: &mut Shim) {
    shim.spaces = Namespaces::adopt(&shim.settings, &shim.folder);
    shim.started_at = std::fs::read_to_string(started_file(shim)).ok().and_then(|text| text.parse().ok());
    let process = Identity::read(&sandbox_file(shim)).and_then(|identity| Some((identity.pid, identity.open()?)));
    match process {
        Some((pid, process)) if shim.started_at.is_some() => shim.sandbox = Some(Sandbox { pid, process }),
        _ if shim.started_at.is_some() => shim.ended = Some(Ended::default()),
        _ => fail(shim, "the machine's shim was killed while it started the sandbox"),
    }
    // What the dead shim was writing to the agent may lack its end, which this fills.
    shim.to_agent.end().extend([0; TORN_BYTES]);
    tell_disconnected(shim);
}

/// The longest body a machine's agent is sent, and a header.
const TORN_BYTES: usize = (64 << 10) + 1024;

/// The agent ends its streams; whoever read them is gone.
pub fn tell_disconnected(shim: &mut Shim) {
    let event = super::connection::encode(0, Kind::Event, &json!({"event": "disconnected"}));
    shim.to_agent.end().extend(event);
}

fn fail_with_last_words(shim: &mut Shim, step: &str) {
    super::serve::read_errors(shim);
    let said = shim.ring.tail(2048);
    let said = if said.trim().is_empty() { "it said nothing" } else { said.trim() };
    fail(shim, &format!("the runtime's {step} failed: {said}"));
}

fn fail(shim: &mut Shim, why: &str) {
    shim.ring.write(format!("sandpool-shim: {why}\n").as_bytes());
    shim.failure = Some(why.to_owned());
    shim.ended = Some(Ended::default());
}

fn sandbox_file(shim: &Shim) -> PathBuf {
    shim.folder.join("sandbox.json")
}

fn started_file(shim: &Shim) -> PathBuf {
    shim.folder.join("started")
}

/// Adds the members of an object to another.
pub fn merge(into: &mut serde_json::Value, from: serde_json::Value) {
    if let (Some(into), serde_json::Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}
