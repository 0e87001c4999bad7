//! What tells a restored machine from the one it was. Only as process 1: elsewhere these files are the host's own.

use crate::machine::start::take_hostname;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

const MACHINE_ID: &str = "/etc/machine-id";
const GENERATION_FOLDER: &str = "/run/sandpool";
const GENERATION: &str = "/run/sandpool/generation";

/// Takes the new identity; what could not be set is told, for a full disk of the user's is no reason to have no machine.
pub fn take(hostname: Option<&str>, machine_id: Option<&str>, entropy: Option<&str>, generation: u64) -> Vec<String> {
    if std::process::id() != 1 {
        return Vec::new();
    }
    hostname.into_iter().for_each(take_hostname);
    let mut warnings = Vec::new();
    let mut note = |what: &str, done: io::Result<()>| {
        if let Err(error) = done {
            warnings.push(format!("{what}: {error}"));
        }
    };
    note("/dev/urandom", entropy.map_or(Ok(()), mix));
    note(MACHINE_ID, machine_id.map_or(Ok(()), write_machine_id));
    note(GENERATION, write_generation(generation));
    warnings
}

/// For programs that watch it: a line, there as a whole.
pub fn write_generation(generation: u64) -> io::Result<()> {
    fs::create_dir_all(GENERATION_FOLDER)?;
    let draft = format!("{GENERATION}.draft");
    fs::write(&draft, format!("{generation}\n"))?;
    fs::rename(draft, GENERATION)
}

fn write_machine_id(machine_id: &str) -> io::Result<()> {
    let line = format!("{machine_id}\n");
    if fs::read(MACHINE_ID).is_ok_and(|bytes| bytes == line.as_bytes()) || !Path::new("/etc").is_dir() {
        return Ok(());
    }
    let draft = format!("{MACHINE_ID}.draft");
    let written = fs::write(&draft, &line).and_then(|()| fs::rename(&draft, MACHINE_ID));
    // On a full disk the bytes that are there can still be others.
    written.or_else(|error| {
        let _ = fs::remove_file(&draft);
        let mut file = OpenOptions::new().write(true).open(MACHINE_ID).map_err(|_| error)?;
        file.write_all(line.as_bytes())
    })
}

fn mix(entropy: &str) -> io::Result<()> {
    let bytes = STANDARD.decode(entropy).map_err(io::Error::other)?;
    OpenOptions::new().write(true).open("/dev/urandom")?.write_all(&bytes)
}
