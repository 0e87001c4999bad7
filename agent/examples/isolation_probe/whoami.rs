//! What a process can tell about its own identity.

use std::fs;

use serde_json::{Value, json};

pub fn describe() -> Value {
    let status = fs::read_to_string("/proc/self/status").expect("own status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().replace('\t', " ")
    };
    let pid = std::process::id();
    // SAFETY: takes a number only.
    let session = unsafe { libc::getsid(0) };
    json!({
        "uids": field("Uid:"),
        "gids": field("Gid:"),
        "groups": field("Groups:"),
        "inheritable": field("CapInh:"),
        "permitted": field("CapPrm:"),
        "effective": field("CapEff:"),
        "bounding": field("CapBnd:"),
        "ambient": field("CapAmb:"),
        "no_new_privileges": field("NoNewPrivs:"),
        "filters": field("Seccomp_filters:"),
        "leads_session": session == pid.cast_signed(),
        "oom_score": read("/proc/self/oom_score_adj"),
        "folder": std::env::current_dir().ok(),
        "home": std::env::var("HOME").ok(),
        "temporary": std::env::var("TMPDIR").ok(),
        "channel": std::env::var("SANDPOOL_FD").ok(),
        "limits": {
            "address_space": limit(libc::RLIMIT_AS),
            "processes": limit(libc::RLIMIT_NPROC),
            "descriptors": limit(libc::RLIMIT_NOFILE),
            "core": limit(libc::RLIMIT_CORE),
        },
        "mounts": mounts(),
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Soft and hard, null for no limit.
fn limit(resource: libc::__rlimit_resource_t) -> Value {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: limit outlives the call.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    let shown = |value| (value != libc::RLIM_INFINITY).then_some(value);
    json!([shown(limit.rlim_cur), shown(limit.rlim_max)])
}

/// The private folders with type and flags, and every quota mount that is visible.
fn mounts() -> Value {
    let table = read("/proc/self/mountinfo");
    let shown: serde_json::Map<String, Value> = table
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let left: Vec<&str> = left.split(' ').collect();
            let (target, flags) = (*left.get(4)?, *left.get(5)?);
            let kind = right.split(' ').next()?;
            let ours = ["/workspace", "/tmp", "/dev/shm"].contains(&target);
            (ours || target.starts_with("/run/ws")).then(|| (target.to_owned(), json!(format!("{kind} {flags}"))))
        })
        .collect();
    shown.into()
}
