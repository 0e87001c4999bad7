//! `machine`: who this machine is; and what the process itself needs first.

use super::exec::shell;
use super::run::{Answered, Machine};
use super::users;
use crate::channel::error::RequestError;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The head of the request; what the worker wants of this machine.
#[derive(Debug, Default, Deserialize)]
pub struct Settings {
    /// The machine's id.
    #[serde(default)]
    pub id: String,
    /// Its host name.
    #[serde(default)]
    pub hostname: Option<String>,
    /// Memory that its programs may use.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Variables of programs that are started without any.
    #[serde(default)]
    pub environ: BTreeMap<String, String>,
    /// Programs get no new privileges and no capability, root's neither.
    #[serde(default)]
    pub unprivileged: bool,
    /// How often it was restored.
    #[serde(default)]
    pub generation: u64,
}

impl Machine {
    /// Takes the settings, again with every connection. Programs go on.
    pub(super) fn start(&mut self, settings: Settings) -> Result<Answered, RequestError> {
        if !self.settings.id.is_empty() && settings.id != self.settings.id {
            return Err(RequestError::invalid(format!(
                "id is {:?}; this is machine {:?}, which keeps its id",
                settings.id, self.settings.id
            )));
        }
        if let Some(hostname) = &settings.hostname {
            take_hostname(hostname);
        }
        self.generation = self.generation.max(settings.generation);
        if std::process::id() == 1 && self.settings.id.is_empty() {
            // Without it nobody could watch it; a restore writes it again.
            let _ = super::states::write_generation(self.generation);
        }
        self.settings = settings;
        // What the kernel did before is nobody's exec.
        self.memory.kernel_has_killed();
        Ok(Answered::now(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "features": ["exec", "files", "trees", "watch", "ports", "states"],
            "users": users::listed(),
            "shell": shell(),
        })))
    }
}

/// Only as process 1: elsewhere the name would be the host's own. Mostly the runtime has set it before.
pub(super) fn take_hostname(hostname: &str) {
    if std::process::id() == 1 {
        // SAFETY: the name is valid for its length.
        unsafe { libc::sethostname(hostname.as_ptr().cast(), hostname.len()) };
    }
}

/// Orphans come to this process, descriptors suffice, no mask hides bits of modes. Returns the former soft limit of
/// open descriptors, which programs get back.
pub fn prepare_process() -> io::Result<Option<u64>> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: takes numbers, and a struct that lives here.
    let known = unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        libc::umask(0o022);
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0
    };
    crate::system::raise_descriptor_limit();
    Ok(known.then_some(limit.rlim_cur))
}

/// SIGCHLD and SIGTERM as a descriptor. Before any thread exists: threads inherit the mask.
pub fn signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised before use; the new descriptor belongs to nobody else.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        let descriptor = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// Numbers of the signals that have come.
pub fn taken_signals(descriptor: RawFd) -> Vec<i32> {
    const ENTRY_BYTES: usize = size_of::<libc::signalfd_siginfo>();
    let mut buffer = [0; ENTRY_BYTES * 8];
    let mut numbers = Vec::new();
    while let Ok(count) = crate::system::read(descriptor, &mut buffer) {
        let entries = buffer[..count].chunks_exact(ENTRY_BYTES);
        // The number is the first field of the struct.
        numbers.extend(entries.map(|entry| i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]])));
        if count < buffer.len() {
            break;
        }
    }
    numbers
}
