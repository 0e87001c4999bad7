//! The `sandpool-agent` program: serves the worker on descriptor 3 until it is closed. As `sandpool-agent relay` it
//! only forwards connections.

use std::process::ExitCode;

/// Where the worker put its end of the channel.
const WORKER_DESCRIPTOR: i32 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        None => serve(),
        Some("relay") => std::process::exit(sandpool_agent::relay::run(&arguments[1..])),
        Some(other) => {
            eprintln!("sandpool-agent: received the argument {other:?}, expected none or relay");
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
