//! `sandpool-agent relay --listen 127.0.0.1:PORT --unix /path [-- argv…]`: forwards each TCP connection to
//! a unix socket, so that programs which only speak to `http://host:port` proxies reach one that is a file.

mod forward;
mod loopback;
mod supervise;

use std::fmt::Display;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;

const USAGE: &str =
    "usage: sandpool-agent relay --listen 127.0.0.1:PORT --unix /path/of/socket [-- program arguments…]";

/// Exit code for a command line that was not understood.
const USAGE_ERROR: i32 = 64;
/// Exit code when the relay itself cannot work.
const RELAY_ERROR: i32 = 69;

#[derive(Debug, PartialEq, Eq)]
struct Options {
    listen: SocketAddr,
    unix: PathBuf,
    program: Vec<String>,
}

/// Runs the relay mode; `arguments` are those after `relay`. With a program, returns its exit code once it
/// ends (128 + n after signal n); without one it only returns on an error.
pub fn run(arguments: &[String]) -> i32 {
    let options = match parse(arguments) {
        Ok(options) => options,
        Err(message) => return fail(USAGE_ERROR, format!("{message}\n{USAGE}")),
    };
    // Before any thread exists: threads inherit the mask, and only the supervisor takes these signals.
    supervise::block_signals();
    if options.listen.ip().is_loopback()
        && let Err(error) = loopback::bring_up()
    {
        return fail(RELAY_ERROR, format!("cannot bring loopback up: {error}"));
    }
    let listener = match TcpListener::bind(options.listen) {
        Ok(listener) => listener,
        Err(error) => {
            return fail(RELAY_ERROR, format!("cannot listen on {}: {error}", options.listen));
        }
    };
    if options.program.is_empty() {
        supervise::unblock_signals();
        forward::accept_all(&listener, &options.unix);
        return fail(RELAY_ERROR, "the listener ended");
    }
    let unix = options.unix;
    thread::spawn(move || forward::accept_all(&listener, &unix));
    supervise::run(&options.program)
        .unwrap_or_else(|error| fail(RELAY_ERROR, format!("cannot run {:?}: {error}", options.program)))
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let (mut listen, mut unix, mut program) = (None, None, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--" => {
                program = rest.by_ref().cloned().collect();
                if program.is_empty() {
                    return Err("no program after --".to_owned());
                }
            }
            name @ ("--listen" | "--unix") => {
                let value = rest.next().ok_or(format!("{name} has no value"))?;
                if name == "--unix" {
                    unix = Some(PathBuf::from(value));
                } else {
                    let address: SocketAddr =
                        value.parse().map_err(|_| format!("--listen is {value:?}; expected an address and port"))?;
                    listen = Some(address);
                }
            }
            other => return Err(format!("{other:?} is no option of relay")),
        }
    }
    Ok(Options { listen: listen.ok_or("--listen is missing")?, unix: unix.ok_or("--unix is missing")?, program })
}

fn fail(code: i32, message: impl Display) -> i32 {
    eprintln!("sandpool-agent relay: {message}");
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn everything_after_the_dashes_is_the_program() {
        let options = parse(&words("--listen 127.0.0.1:80 --unix /p -- pip --unix x -- y")).expect("valid");
        assert_eq!(options.program, ["pip", "--unix", "x", "--", "y"]);
        assert_eq!(options.unix, PathBuf::from("/p"));
    }

    #[test]
    fn a_wrong_address_is_named_in_the_error() {
        let error = parse(&words("--listen localhost --unix /p")).expect_err("no port");
        assert_eq!(error, "--listen is \"localhost\"; expected an address and port");
    }
}
