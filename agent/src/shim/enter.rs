//! One call of the runtime, or of a host program, inside the namespaces of a machine, in the place of this process.
//! The driver's own way to save disks: it needs no connection to the shim.

use super::identity::Identity;
use super::namespaces::Namespaces;
use super::saved::State;
use super::{runtime, settings};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Runs the runtime with these arguments; returns only when it could not be run.
pub fn runtime(folder: &Path, arguments: &[String]) -> io::Error {
    run(folder, None, arguments)
}

/// Has the runtime write the machine's state into a folder of the host; the machine goes on.
pub fn checkpoint(folder: &Path, state: &Path, options: &[String]) -> io::Error {
    let state = match State::open(folder, state, true) {
        Ok(state) => state,
        Err(error) => return error,
    };
    let image = format!("--image-path={}", state.place().display());
    let mut arguments = vec!["checkpoint".into(), image];
    arguments.extend_from_slice(options);
    run(folder, Some(state), &arguments)
}

fn run(folder: &Path, state: Option<State>, arguments: &[String]) -> io::Error {
    match prepare(folder) {
        Ok((settings, spaces)) => match runtime::in_place(&settings, &spaces, state) {
            Ok(mut command) => command.args(arguments).exec(),
            Err(error) => error,
        },
        Err(error) => error,
    }
}

/// Runs a program of the host, as the host's root, that sees the machine's mounts.
pub fn program(folder: &Path, arguments: &[String]) -> io::Error {
    let Some((program, rest)) = arguments.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "no program was given");
    };
    match prepare(folder).and_then(|(_, spaces)| spaces.entry()) {
        Ok(entry) => {
            let mut command = Command::new(program);
            // SAFETY: one thread; plain system calls.
            unsafe { command.args(rest).pre_exec(move || entry.enter_mounts()) };
            command.exec()
        }
        Err(error) => error,
    }
}

fn prepare(folder: &Path) -> io::Result<(settings::Settings, Namespaces)> {
    let settings = settings::read(folder)?;
    let spaces = Namespaces::adopt(&settings, folder).ok_or_else(|| {
        let known = Identity::read(&folder.join(super::namespaces::HOLDER_FILE)).is_some();
        io::Error::other(if known { "the machine does not run any more" } else { "the machine does not run yet" })
    })?;
    Ok((settings, spaces))
}
