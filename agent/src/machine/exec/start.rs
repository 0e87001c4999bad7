//! `exec.start`

use super::{Described, Exec, Input, Keeper, Kept, Output};
use crate::channel::error::RequestError;
use crate::machine::keeper::{Credentials, Specification};
use crate::machine::poller::{Source, Watched};
use crate::machine::run::{Answered, Machine, Ticket};
use crate::machine::{clock, pty, users};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

const KEEP_BYTES: usize = 8 << 20;
const KEEP_LIMIT_BYTES: usize = 256 << 20;
const GRACE_MS: u64 = 2000;
const ID_LIMIT_BYTES: usize = 64;
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The head of the request.
#[derive(Debug, Deserialize)]
pub struct Starting {
    id: String,
    argv: Vec<String>,
    #[serde(default)]
    cwd: Option<String>,
    /// Null: the machine's.
    #[serde(default)]
    environ: Option<BTreeMap<String, String>>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    tty: Option<pty::Size>,
    #[serde(default)]
    stdin: bool,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    grace_ms: Option<u64>,
    #[serde(default)]
    keep_bytes: Option<usize>,
    /// Streams that are attached before the first byte.
    #[serde(default)]
    stdout: Option<u64>,
    #[serde(default)]
    stderr: Option<u64>,
}

/// The shell for commands that are one string: `bash` where it exists.
pub fn shell() -> Option<&'static str> {
    ["/bin/bash", "/usr/bin/bash", "/bin/sh"].into_iter().find(|path| std::path::Path::new(path).exists())
}

/// Ends of pipes: ours, and the program's 0, 1, 2.
struct Ends {
    ours: [Option<OwnedFd>; 3],
    theirs: [OwnedFd; 3],
}

impl Machine {
    /// Starts a program under a keeper of its own; answered once it runs or could not be started.
    pub(in crate::machine) fn exec_start(
        &mut self,
        ticket: Ticket,
        request: Starting,
    ) -> Result<Answered, RequestError> {
        check(&request)?;
        if let Some(exec) = self.execs.of_id(&request.id) {
            return exec.start_again(ticket);
        }
        let streams: Vec<u64> = request.stdout.into_iter().chain(request.stderr).collect();
        self.streams.check_all_free(&streams)?;
        let user = users::resolve(request.user.as_deref())
            .map_err(|message| failed(libc::EINVAL, "user", format!("exec {}: {message}", request.id)))?;
        let started = self.start_keeper(ticket, &request, &user).map_err(|error| {
            failed(error.raw_os_error().unwrap_or(libc::EIO), "keeper", format!("exec {}: {error}", request.id))
        })?;
        let slot = self.execs.next_slot;
        self.execs.next_slot = slot.wrapping_add(1);
        self.execs.slots.insert(slot, started);
        let exec = self.execs.slots.get_mut(&slot).expect("just inserted");
        for (stream, output) in [(request.stdout, Some(&mut exec.stdout)), (request.stderr, exec.stderr.as_mut())] {
            if let (Some(stream), Some(output)) = (stream, output) {
                self.streams.add_outgoing(stream, false)?;
                output.readers.push(stream);
            }
        }
        Ok(Answered::Later)
    }

    fn start_keeper(&self, ticket: Ticket, request: &Starting, user: &users::User) -> io::Result<Exec> {
        let slot = self.execs.next_slot;
        let tty = request.tty.is_some();
        let (terminal, ends) = match &request.tty {
            Some(size) => {
                let (master, slave) = pty::open(size, user)?;
                (Some(master.try_clone()?), terminal_ends(master, slave)?)
            }
            None => (None, pipe_ends(request.stdin, user)?),
        };
        let [input, output, errors] = ends.ours;
        let (control, pid) = spawn(&self.specification(request, user), ends.theirs)?;
        let watch = |descriptor: OwnedFd, source: Source| Watched::new(descriptor, &self.poller, source);
        let keep_bytes = request.keep_bytes.unwrap_or(KEEP_BYTES).min(KEEP_LIMIT_BYTES);
        let outlet = |descriptor: Option<OwnedFd>, source: Source| -> io::Result<Output> {
            let source = descriptor.map(|descriptor| watch(descriptor, source)).transpose()?;
            Ok(Output { source, kept: Kept::new(keep_bytes), readers: Vec::new(), owed_bytes: 0 })
        };
        let control = watch(control, Source::Keeper(slot))?;
        let keeper = Keeper { pid, control, buffer: Vec::new(), unsent: Vec::new() };
        let mut exec = Exec::starting(ticket, request, user, keeper, outlet(output, Source::Stdout(slot))?);
        exec.stderr = if tty { None } else { Some(outlet(errors, Source::Stderr(slot))?) };
        let input = input.map(|end| watch(end, Source::Stdin(slot))).transpose()?;
        exec.input = input.map(|sink| Input { sink, tty, feed: None });
        exec.terminal = terminal;
        Ok(exec)
    }

    fn specification(&self, request: &Starting, user: &users::User) -> Specification {
        let mut environ = request.environ.clone().unwrap_or_else(|| self.settings.environ.clone());
        let mut offer = |name: &str, value: &str| {
            environ.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        };
        offer("PATH", DEFAULT_PATH);
        offer("HOME", &user.home);
        if let Some(name) = &user.name {
            offer("USER", name);
            offer("LOGNAME", name);
        }
        if request.tty.is_some() {
            offer("TERM", "xterm-256color");
        }
        let cwd = match &request.cwd {
            Some(cwd) if cwd.starts_with('/') => cwd.clone(),
            Some(cwd) => format!("{}/{cwd}", user.home.trim_end_matches('/')),
            None => user.home.clone(),
        };
        let credentials = Credentials {
            uid: user.uid,
            gid: user.gid,
            groups: user.groups.clone(),
            unprivileged: self.settings.unprivileged,
        };
        Specification {
            argv: request.argv.clone(),
            environ,
            cwd,
            cwd_required: request.cwd.is_some(),
            credentials,
            tty: request.tty.is_some(),
            descriptor_limit: self.descriptor_limit,
        }
    }
}

impl Exec {
    fn starting(ticket: Ticket, request: &Starting, user: &users::User, keeper: Keeper, stdout: Output) -> Self {
        Self {
            id: request.id.clone(),
            described: describe(request, user),
            pid: None,
            keeper: Some(keeper),
            starting: Some(ticket),
            stdout,
            stderr: None,
            input: None,
            terminal: None,
            leader: None,
            left: false,
            closed: false,
            gone: None,
            owed: None,
            deadline: request.timeout_ms.map(clock::after_ms),
            drain_until: None,
            give_up_at: None,
            timed_out: false,
            oom_killed: false,
            lost: false,
            copied: false,
            waits: Vec::new(),
            orders: BTreeMap::new(),
        }
    }

    /// The worker asks again when a connection broke before the answer.
    fn start_again(&mut self, ticket: Ticket) -> Result<Answered, RequestError> {
        if let Some(pid) = self.pid {
            let started_at = self.described.started_at_ms;
            return Ok(Answered::now(json!({"pid": pid, "started_at": started_at, "repeated": true})));
        }
        if self.starting.is_some_and(|earlier| earlier.epoch == ticket.epoch) {
            return Err(RequestError::invalid(format!("exec {} is being started already", self.id)));
        }
        self.starting = Some(ticket);
        Ok(Answered::Later)
    }
}

/// The first words of a command line, enough to know it by: lists of many execs stay small.
fn shorten(argv: &[String]) -> Vec<String> {
    let mut left = 4096;
    let mut words = Vec::new();
    for word in argv {
        let short: String = word.chars().take(left.min(1024)).collect();
        left -= short.chars().count().min(left);
        words.push(if short.len() < word.len() { short + "…" } else { short });
        if left == 0 {
            break;
        }
        left -= 1;
    }
    words
}

fn describe(request: &Starting, user: &users::User) -> Described {
    Described {
        argv: shorten(&request.argv),
        cwd: request.cwd.clone(),
        user: user.name.clone().unwrap_or_else(|| user.uid.to_string()),
        tty: request.tty.is_some(),
        started_at_ms: clock::now_ms(),
        started: Instant::now(),
        grace_ms: request.grace_ms.unwrap_or(GRACE_MS),
        timeout_ms: request.timeout_ms,
    }
}

/// The error for a program that could not be started.
pub(super) fn failed(errno: i32, what: &str, message: String) -> RequestError {
    RequestError::new("exec_failed", message).with_details(json!({"errno": errno, "what": what}))
}

fn check(request: &Starting) -> Result<(), RequestError> {
    let id = &request.id;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if id.is_empty() || id.len() > ID_LIMIT_BYTES || !id.bytes().all(plain) {
        return Err(RequestError::invalid(format!("id is {id:?}; expected 1 to 64 letters, digits, - or _")));
    }
    if request.argv.first().is_none_or(String::is_empty) {
        return Err(RequestError::invalid("argv has no program; expected at least one word, the first not empty"));
    }
    if let Some(word) = request.argv.iter().chain(&request.cwd).find(|word| word.contains('\0')) {
        return Err(RequestError::invalid(format!("{word:?} has a NUL, which no argument or path can have")));
    }
    if request.cwd.as_deref() == Some("") {
        return Err(RequestError::invalid("cwd is empty; expected a path, or null for the user's home"));
    }
    let odd = |name: &str, value: &str| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0');
    let environ = request.environ.iter().flatten();
    if let Some((name, _)) = environ.into_iter().find(|(name, value)| odd(name, value)) {
        return Err(RequestError::invalid(format!(
            "variable {name:?} cannot be set; expected a name that is not empty and has no =, and no NUL in either"
        )));
    }
    if request.tty.is_some() && request.stderr.is_some() {
        return Err(RequestError::invalid("stderr is a stream; expected null, as a terminal has one output"));
    }
    Ok(())
}

fn pipe_ends(stdin: bool, user: &users::User) -> io::Result<Ends> {
    let (output, output_end) = crate::system::pipe()?;
    let (errors, errors_end) = crate::system::pipe()?;
    let (ours, input) = if stdin {
        let (input, ours) = crate::system::pipe()?;
        (Some(ours), input)
    } else {
        (None, OwnedFd::from(File::open("/dev/null")?))
    };
    for end in [&output_end, &errors_end, &input] {
        // So that the program can open /dev/stderr by path. Not /dev/null itself.
        if stdin || end.as_raw_fd() != input.as_raw_fd() {
            let _ = crate::system::give(end.as_raw_fd(), user.uid, user.gid);
        }
    }
    Ok(Ends { ours: [ours, Some(output), Some(errors)], theirs: [input, output_end, errors_end] })
}

fn terminal_ends(master: OwnedFd, slave: OwnedFd) -> io::Result<Ends> {
    let output = master.try_clone()?;
    let theirs = [slave.try_clone()?, slave.try_clone()?, slave];
    Ok(Ends { ours: [Some(master), Some(output), None], theirs })
}

/// Starts the keeper; returns this side of its channel and its pid.
fn spawn(specification: &Specification, [input, output, errors]: [OwnedFd; 3]) -> io::Result<(OwnedFd, i32)> {
    let file = in_memory(&serde_json::to_vec(specification)?)?;
    let (ours, theirs) = crate::system::socket_pair()?;
    let handed = [theirs.as_raw_fd(), file.as_raw_fd()];
    let mut command = Command::new("/proc/self/exe");
    command.arg("keep").args(handed.map(|descriptor| descriptor.to_string())).env_clear().current_dir("/");
    command.stdin(Stdio::from(input)).stdout(Stdio::from(output)).stderr(Stdio::from(errors));
    let hand_on = move || {
        for descriptor in handed {
            // SAFETY: takes numbers only.
            if unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(hand_on) };
    let child = command.spawn()?;
    Ok((ours, child.id().cast_signed()))
}

/// A file without a name: a pipe would block the loop where argv is large.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    // SAFETY: the name ends with a NUL; the new descriptor belongs to nobody else.
    let mut file = unsafe {
        let descriptor = libc::memfd_create(c"exec".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(descriptor)
    };
    file.write_all(bytes)?;
    Ok(file)
}
