//! A sandbox that ends with its server, such as a pool's shard: the runtime takes this process's place, its descriptors and
//! its exit status, in namespaces that go with the last process in them. Nothing holds them, so nothing has to be found again.

use super::leftovers;
use super::namespaces::Namespaces;
use super::settings::{self, Settings};
use crate::system;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Below the server's 0: under pressure the host ends a sandbox first.
const OUT_OF_MEMORY_SCORE: &[u8] = b"300";
const END_LIMIT: Duration = Duration::from_secs(20);

/// Runs the runtime with these arguments; returns only when it could not be run.
pub fn run(folder: &Path, arguments: &[String]) -> io::Error {
    match settings::read(folder).and_then(|settings| enter(folder, &settings).map(|()| settings)) {
        Ok(settings) => {
            let mut command = Command::new(&settings.runtime.path);
            command.arg("--root").arg(&settings.runtime.root).args(&settings.runtime.flags).args(arguments);
            command.env_clear().envs(&settings.environ).exec()
        }
        Err(error) => error,
    }
}

/// The groups first: inside the user namespace they belong to nobody.
fn enter(folder: &Path, settings: &Settings) -> io::Result<()> {
    // SAFETY: takes a number only. The runtime makes its files with the mask it inherits.
    unsafe { libc::umask(0o022) };
    std::fs::write("/proc/self/oom_score_adj", OUT_OF_MEMORY_SCORE)?;
    for group in &settings.groups {
        let members = File::options().write(true).open(group.join("cgroup.procs"))?;
        system::write(members.as_raw_fd(), b"0")?;
    }
    Namespaces::enter_new(settings, folder)
}

/// Kills all that belongs to the sandbox, whoever its parent is by now.
pub fn end(folder: &Path) -> io::Result<()> {
    let settings = settings::read(folder)?;
    let left = leftovers::end_all(&settings, folder, END_LIMIT);
    if left.is_empty() { Ok(()) } else { Err(io::Error::other(format!("processes {left:?} could not be killed"))) }
}
