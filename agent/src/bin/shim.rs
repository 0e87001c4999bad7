//! The `sandpool-shim` program: holds one machine on the host and outlives the server.

#[cfg(target_os = "linux")]
use sandpool_agent::shim;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((folder, rest)) = arguments.split_first() else { return explain(&arguments) };
    let mode = rest.first().map(String::as_str);
    let done = match (mode, rest.len()) {
        (None, _) => shim::run(folder.as_ref(), false),
        (Some("--adopt"), 1) => shim::run(folder.as_ref(), true),
        (Some("--runtime"), 2..) => Err(shim::enter::runtime(folder.as_ref(), &rest[1..])),
        (Some("--checkpoint"), 3..) => Err(shim::enter::checkpoint(folder.as_ref(), rest[1].as_ref(), &rest[2..])),
        (Some("--end"), 1) => shim::foreground::end(folder.as_ref()),
        (Some("--foreground"), 2..) => Err(shim::foreground::run(folder.as_ref(), &rest[1..])),
        (Some("--inside"), 2..) => Err(shim::enter::program(folder.as_ref(), &rest[1..])),
        _ => return explain(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sandpool-shim: {folder}: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
fn explain(arguments: &[String]) -> ExitCode {
    eprintln!(
        "sandpool-shim: received the arguments {arguments:?}, expected <folder of a machine>, then nothing, --adopt, \
         --end, --runtime ARGUMENT…, --foreground ARGUMENT…, --checkpoint FOLDER ARGUMENT… or \
         --inside PROGRAM ARGUMENT…"
    );
    ExitCode::from(64)
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("sandpool-shim: machines need Linux");
    ExitCode::FAILURE
}
