//! The `sandpool-shim` program: holds one machine on the host and outlives the server.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, adopt) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [folder] => (folder, false),
        [folder, "--adopt"] => (folder, true),
        _ => {
            eprintln!("sandpool-shim: received the arguments {arguments:?}, expected <folder of a machine> [--adopt]");
            return ExitCode::from(64);
        }
    };
    match sandpool_agent::shim::run(folder.as_ref(), adopt) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sandpool-shim: {folder}: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("sandpool-shim: machines need Linux");
    ExitCode::FAILURE
}
