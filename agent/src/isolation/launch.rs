//! Starts a program: fork, descriptors, an identity, exec. A failure in the child comes back as an
//! error that names the step.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use super::{CHANNEL_DESCRIPTOR, sys};

/// A program to start.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and its arguments; a name without `/` is looked up in the environ's `PATH`.
    pub argv: Vec<String>,
    /// Working directory, resolved after the mounts are in place and as the row's uid.
    pub cwd: String,
    /// The whole environment. `SANDPOOL_FD` is added, for an environment `HOME` and `TMPDIR` too.
    pub environ: Vec<(String, String)>,
}

/// The only descriptors a started program has.
#[derive(Clone, Copy, Debug)]
pub struct ChildFds {
    /// Becomes 0.
    pub stdin: RawFd,
    /// Becomes 1.
    pub stdout: RawFd,
    /// Becomes 2.
    pub stderr: RawFd,
    /// Becomes `CHANNEL_DESCRIPTOR`, named by `SANDPOOL_FD`.
    pub channel: RawFd,
}

/// A step of the child that failed.
pub(super) struct Failure {
    pub(super) step: Step,
    pub(super) error: io::Error,
}

macro_rules! steps {
    ($($name:ident: $text:literal,)*) => {
        /// What the child was doing. One byte tells the parent.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Step { $($name,)* }

        const STEPS: &[(Step, &str)] = &[$((Step::$name, $text),)*];
    };
}

steps! {
    Descriptors: "placing its descriptors",
    Session: "starting a session",
    Memory: "entering its memory cgroup",
    Namespace: "unsharing the mount namespace",
    Mounts: "binding /workspace, /tmp and /dev/shm (they must exist as folders in the container)",
    Limits: "setting resource limits",
    Capabilities: "giving up capabilities",
    Identity: "taking its uid and gid",
    Filter: "loading the system call filter",
    Folder: "changing to the working directory",
    Exec: "executing the program (check that it exists, is executable, and that its #! line names an interpreter)",
}

impl Step {
    /// For `map_err`: attaches this step to an error.
    pub(super) fn failed(self) -> impl FnOnce(io::Error) -> Failure {
        move |error| Failure { step: self, error }
    }
}

/// Everything the child needs, made before the fork so that the child allocates nothing.
pub(super) struct Launch {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    environ: Vec<CString>,
    cwd: CString,
    fds: ChildFds,
}

impl Launch {
    /// `extra` replaces variables of the same name.
    pub(super) fn new(program: &Program, fds: &ChildFds, extra: &[(&str, String)]) -> io::Result<Self> {
        let Some(name) = program.argv.first().filter(|name| !name.is_empty()) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("argv is {:?}; expected at least a program", program.argv),
            ));
        };
        let channel = ("SANDPOOL_FD", CHANNEL_DESCRIPTOR.to_string());
        let added: Vec<_> = extra.iter().chain([&channel]).collect();
        let kept = program.environ.iter().filter(|(key, _)| added.iter().all(|(name, _)| name != key));
        let pairs = kept
            .map(|(key, value)| format!("{key}={value}"))
            .chain(added.iter().map(|(key, value)| format!("{key}={value}")));
        Ok(Self {
            candidates: search(name, &program.environ).into_iter().map(c_string).collect::<io::Result<_>>()?,
            argv: program.argv.iter().cloned().map(c_string).collect::<io::Result<_>>()?,
            environ: pairs.map(c_string).collect::<io::Result<_>>()?,
            cwd: c_string(program.cwd.clone())?,
            fds: *fds,
        })
    }

    /// Forks, runs `identity` in the child, executes the program, and returns its pid once it runs.
    ///
    /// `identity` must not allocate or lock: it runs between fork and exec.
    pub(super) fn start(&self, identity: impl FnOnce() -> Result<(), Failure>) -> io::Result<i32> {
        let argv = pointers(&self.argv);
        let environ = pointers(&self.environ);
        let (read, write) = sys::pipe()?;
        // SAFETY: the child only makes system calls on values prepared above, then execs or exits.
        match unsafe { sys::fork() }? {
            None => {
                let failure = self.become_program(&write, identity, &argv, &environ);
                report(&failure);
                sys::exit_now(127)
            }
            Some(pid) => {
                drop(write);
                self.outcome(pid, read)
            }
        }
    }

    fn become_program(
        &self,
        report_to: &OwnedFd,
        identity: impl FnOnce() -> Result<(), Failure>,
        argv: &[*const libc::c_char],
        environ: &[*const libc::c_char],
    ) -> Failure {
        sys::reset_signals();
        let prepared = place_descriptors(&self.fds, report_to.as_raw_fd())
            .map_err(Step::Descriptors.failed())
            .and_then(|()| sys::new_session().map_err(Step::Session.failed()))
            .and_then(|()| identity())
            .and_then(|()| change_folder(&self.cwd).map_err(Step::Folder.failed()));
        match prepared {
            Err(failure) => failure,
            Ok(()) => Failure { step: Step::Exec, error: execute(&self.candidates, argv, environ) },
        }
    }

    /// The report pipe closes on exec, so end of file means that the program runs.
    fn outcome(&self, pid: i32, read: OwnedFd) -> io::Result<i32> {
        let mut bytes = Vec::new();
        File::from(read).read_to_end(&mut bytes)?;
        let Some((&[step], errno)) = bytes.split_first_chunk::<1>() else {
            return Ok(pid);
        };
        sys::wait(pid, 0)?;
        let what = STEPS.get(usize::from(step)).map_or("an unknown step", |(_, text)| text);
        let errno = errno.try_into().map_or(0, i32::from_le_bytes);
        Err(sys::explain(
            io::Error::from_raw_os_error(errno),
            format!("cannot start {:?} in {:?}: failed at {what}", self.argv, self.cwd),
        ))
    }
}

/// Where the child tells its parent that it failed; closed on exec.
const REPORT_DESCRIPTOR: RawFd = CHANNEL_DESCRIPTOR + 1;

fn report(failure: &Failure) {
    let mut bytes = [0; 5];
    bytes[0] = failure.step as u8;
    bytes[1..].copy_from_slice(&failure.error.raw_os_error().unwrap_or(0).to_le_bytes());
    // SAFETY: the buffer is valid for its length.
    unsafe { libc::write(REPORT_DESCRIPTOR, bytes.as_ptr().cast(), bytes.len()) };
}

/// Moves all sources out of the way first, so that no target overwrites one not yet copied.
fn place_descriptors(fds: &ChildFds, report_to: RawFd) -> io::Result<()> {
    let above = REPORT_DESCRIPTOR + 1;
    // First of all, so that a failure of the others can be told.
    let moved = sys::duplicate_above(report_to, above)?;
    let mut sources = [fds.stdin, fds.stdout, fds.stderr, fds.channel];
    for source in &mut sources {
        *source = sys::duplicate_above(*source, above)?;
    }
    sys::duplicate_onto(moved, REPORT_DESCRIPTOR)?;
    sys::close_on_exec(REPORT_DESCRIPTOR)?;
    for (target, source) in (0..).zip(sources) {
        sys::duplicate_onto(source, target)?;
    }
    sys::close_from(above);
    Ok(())
}

fn change_folder(path: &CStr) -> io::Result<()> {
    // SAFETY: the path is a C string.
    sys::check(unsafe { libc::chdir(path.as_ptr()) }).map(drop)
}

/// Tries each candidate as `execvp` does; returns only the error.
fn execute(candidates: &[CString], argv: &[*const libc::c_char], environ: &[*const libc::c_char]) -> io::Error {
    let mut kept = io::Error::from_raw_os_error(libc::ENOENT);
    for candidate in candidates {
        // SAFETY: both lists end with a null pointer and point at strings alive in this frame's owner.
        unsafe { libc::execve(candidate.as_ptr(), argv.as_ptr(), environ.as_ptr()) };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => kept = error,
            _ => return error,
        }
    }
    kept
}

fn search(name: &str, environ: &[(String, String)]) -> Vec<String> {
    if name.contains('/') {
        return vec![name.to_owned()];
    }
    let path = environ.iter().find(|(key, _)| key == "PATH").map_or("/usr/local/bin:/usr/bin:/bin", |(_, value)| value);
    path.split(':').filter(|folder| !folder.is_empty()).map(|folder| format!("{folder}/{name}")).collect()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// A C string; the error shows the text that held a NUL.
pub(super) fn c_string(text: String) -> io::Result<CString> {
    CString::new(text).map_err(|error| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{:?} contains a NUL byte; remove it", String::from_utf8_lossy(&error.into_vec())),
        )
    })
}
