//! What the agent does to itself before it starts anything.

use std::fs;
use std::io::{self, ErrorKind};

use super::identity::{ENVIRONMENT_OOM_SCORE, WORKSPACES};
use super::launch::c_string;
use super::sys::{check, explain};
use super::{Settings, capabilities, mounts, own_groups};

const AGENT_OOM_SCORE: i32 = -900;

pub(super) fn agent(settings: &Settings) -> io::Result<()> {
    // Orphans of environments come to the agent, which reaps them; process 1 gets them anyway.
    prctl(libc::PR_SET_CHILD_SUBREAPER, 1)?;
    lower_oom_score();
    if !settings.isolated {
        return Ok(());
    }
    let missing = capabilities::missing()?;
    if !missing.is_empty() {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!(
                "isolated is true but the agent does not hold {}; grant them in the container's bounding, \
                 permitted and effective sets, or send isolated false",
                missing.join(", ")
            ),
        ));
    }
    forbid_dumps()?;
    own_workspaces_mount()?;
    if settings.own_groups { own_groups::prepare(settings) } else { Ok(()) }
}

/// Nothing inside may look into the agent. A change of ids can undo it.
pub(super) fn forbid_dumps() -> io::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, 0)
}

/// Environments are raised to `ENVIRONMENT_OOM_SCORE`, so the order holds even where this may not go down.
fn lower_oom_score() {
    let path = "/proc/self/oom_score_adj";
    let current = fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if current.is_some_and(|score| score > AGENT_OOM_SCORE) {
        // Refused without CAP_SYS_RESOURCE on the host: the worker sets it from outside instead.
        let _ = fs::write(path, AGENT_OOM_SCORE.to_string());
    }
}

/// Best effort: the process may have ended already.
pub(super) fn raise_oom_score(pid: i32) {
    let _ = fs::write(format!("/proc/{pid}/oom_score_adj"), ENVIRONMENT_OOM_SCORE.to_string());
}

/// A mount of its own lets a child drop all quota mounts with one call, and private propagation keeps
/// them out of every namespace made earlier.
fn own_workspaces_mount() -> io::Result<()> {
    let private = libc::MS_REC | libc::MS_PRIVATE;
    mounts::mount(c"none", c"/", None, private, None)
        .map_err(|error| explain(error, "cannot make the container's mounts private"))?;
    match fs::create_dir(WORKSPACES) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => {
            other.map_err(|error| explain(error, format!("cannot make {WORKSPACES}; /run must be a writable tmpfs")))?
        }
    }
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let target = c_string(WORKSPACES.to_owned())?;
    mounts::mount(c"tmpfs", &target, Some(c"tmpfs"), flags, Some(c"mode=0711,size=1m"))
        .map_err(|error| explain(error, format!("cannot mount a tmpfs on {WORKSPACES}")))
}

fn prctl(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the options used here take numbers only.
    check(unsafe { libc::prctl(option, value, 0, 0, 0) }).map(drop)
}
