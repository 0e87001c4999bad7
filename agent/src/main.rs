//! The `sandpool-agent` program: serves the worker on descriptor 3 until it is closed. As `sandpool-agent relay` it
//! only forwards connections; as `machine` it serves a machine on its standard input and output, whose programs it
//! starts under `keep`.

use std::process::ExitCode;

/// Where the worker put its end of the channel.
const WORKER_DESCRIPTOR: i32 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        None => serve(),
        Some("relay") => std::process::exit(sandpool_agent::relay::run(&arguments[1..])),
        #[cfg(target_os = "linux")]
        Some("machine") => serve_machine(),
        #[cfg(target_os = "linux")]
        Some("keep") => std::process::exit(sandpool_agent::machine::keeper::run(&arguments[1..])),
        Some(other) => {
            eprintln!("sandpool-agent: received the argument {other:?}, expected none, machine or relay");
            ExitCode::from(64)
        }
    }
}

fn serve() -> ExitCode {
    match sandpool_agent::serve(WORKER_DESCRIPTOR) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "sandpool-agent: {error}; expected a stream socket to the worker on descriptor {WORKER_DESCRIPTOR}"
            );
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
fn serve_machine() -> ExitCode {
    match sandpool_agent::machine::serve() {
        Ok(code) => std::process::exit(code),
        Err(error) => {
            eprintln!("sandpool-agent machine: {error}; expected two pipes to the worker as standard input and output");
            ExitCode::FAILURE
        }
    }
}
