//! `/etc/sandpool/fork.d`: programs that a copy runs before it answers for the first time.

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = "/etc/sandpool/fork.d";
/// All of them together.
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);

/// Runs the executables of the folder in the order of their names; tells how each ended, and what the user should know.
pub fn run(generation: u64, machine: &str) -> (Vec<Value>, Vec<String>) {
    let (mut ran, mut warnings) = (Vec::new(), Vec::new());
    if std::process::id() != 1 {
        return (ran, warnings);
    }
    let deadline = Instant::now() + LIMIT;
    for path in executables(Path::new(FOLDER)) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ended = start(&path, generation, machine).map(|child| wait(child, deadline));
        let code = match &ended {
            Ok(Some(status)) => status.code(),
            _ => None,
        };
        match ended {
            Ok(Some(status)) if status.success() => {}
            Ok(Some(status)) => warnings.push(format!("{FOLDER}/{name} ended with {status}")),
            Ok(None) => warnings.push(format!("{FOLDER}/{name} was killed: all together may take 5 s")),
            Err(error) => warnings.push(format!("{FOLDER}/{name} could not be run: {error}")),
        }
        ran.push(json!({"name": name, "exit_code": code}));
    }
    (ran, warnings)
}

fn executables(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0))
        .collect();
    found.sort();
    found
}

/// Its standard error is the agent's, which the machine's logs show.
fn start(path: &Path, generation: u64, machine: &str) -> std::io::Result<Child> {
    let mut command = Command::new(path);
    command.env_clear().current_dir("/").process_group(0).stdin(Stdio::null()).stdout(Stdio::null());
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
    command.env("SANDPOOL_GENERATION", generation.to_string()).env("SANDPOOL_MACHINE", machine);
    command.spawn()
}

/// `None`: it was killed.
fn wait(mut child: Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            _ => {
                // SAFETY: takes numbers only; a child that was not collected keeps its number, which is its group's.
                unsafe { libc::kill(-child.id().cast_signed(), libc::SIGKILL) };
                let _ = child.wait();
                return None;
            }
        }
    }
}
