//! The shim of one machine, on the host: starts the runtime, holds the agent's channel, records the exit, and outlives
//! the server. `docs/internals/machines.md` is the contract. One thread: it forks, and forked children enter namespaces.

mod connection;
pub mod enter;
pub mod foreground;
pub mod frames;
mod identity;
mod leftovers;
mod mounts;
mod namespaces;
mod pipes;
mod requests;
mod ring;
mod runtime;
pub mod saved;
mod serve;
mod settings;
mod shift;
mod start;
mod state;
mod stop;

use identity::Identity;
use state::Shim;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Holds the machine of this folder until its sandbox has ended. `adopt`: one that runs already, whose shim was killed.
///
/// # Errors
/// When the folder cannot be used at all, or another shim holds it. What fails later is told in `exit.json`.
pub fn run(folder: &Path, adopt: bool) -> io::Result<()> {
    let _lock = lock(folder)?;
    Identity::of(std::process::id() as i32)
        .ok_or_else(|| io::Error::other("/proc does not show this process"))?
        .write(&folder.join("shim.pid"))?;
    let settings = settings::read(folder)?;
    let pipes = pipes::Pipes::open(folder)?;
    detach(pipes.errors.as_raw_fd())?;
    let children = crate::system::child_signals()?;
    let listener = listen(folder)?;
    let mut shim = Shim::new(folder.to_owned(), settings, pipes, children, listener)?;
    if adopt {
        start::adopt(&mut shim)
    } else {
        start::begin(&mut shim)
    }
    serve::run(&mut shim)
}

/// Two shims on one machine would take each other's frames.
fn lock(folder: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("shim.lock"))?;
    // SAFETY: a descriptor this process owns.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } < 0 {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another shim holds this machine"));
    }
    Ok(file)
}

/// A session of its own, parent of what its descendants leave behind, and nothing of the server's descriptors.
fn detach(errors: i32) -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    // SAFETY: plain calls on descriptors this process owns.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        libc::umask(0o022);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        for (from, to) in [(null.as_raw_fd(), 0), (null.as_raw_fd(), 1), (errors, 2)] {
            if libc::dup2(from, to) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

fn listen(folder: &Path) -> io::Result<UnixListener> {
    let path = folder.join("shim.sock");
    if let Err(error) = fs::remove_file(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    // SAFETY: takes a number only; the socket is for its owner alone from its first moment on.
    let mask = unsafe { libc::umask(0o177) };
    let listener = UnixListener::bind(&path);
    // SAFETY: takes a number only.
    unsafe { libc::umask(mask) };
    let listener = listener?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
