//! Calls of the OCI runtime, each inside the machine's namespaces.

use super::namespaces::{Namespaces, die_with};
use super::saved::State;
use super::settings::{RuntimeKind, Settings};
use crate::system;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// What a call says is cut here.
const OUTPUT_LIMIT_BYTES: u64 = 1 << 20;

/// A call that runs. What it writes goes to memory files: a sandbox it starts inherits them, and would keep a pipe open.
pub struct Call {
    /// The runtime's process.
    pub child: Child,
    stdout: File,
    stderr: File,
}

impl Call {
    /// What it wrote, once it has ended.
    pub fn output(&mut self) -> (String, String) {
        (read_back(&mut self.stdout), read_back(&mut self.stderr))
    }
}

/// The three descriptors of a new container.
pub struct Streams {
    /// Standard input.
    pub input: File,
    /// Standard output.
    pub output: File,
    /// Standard error.
    pub errors: File,
}

/// Creates the container; its first process waits for `start`.
pub fn create(settings: &Settings, spaces: &Namespaces, streams: Streams) -> io::Result<Child> {
    let mut command = command(settings, spaces, Way { into_groups: true, with_shim: true, state: None })?;
    command.arg("create").arg("--bundle").arg(&settings.bundle);
    command.arg("--pid-file").arg(pid_file(settings)).arg(&settings.id);
    command.stdin(streams.input).stdout(streams.output).stderr(streams.errors);
    command.spawn()
}

/// Any other call.
pub fn call(settings: &Settings, spaces: &Namespaces, arguments: &[String], state: Option<State>) -> io::Result<Call> {
    let (stdout, stderr) = (memory_file()?, memory_file()?);
    let makes_sandbox = matches!(arguments.first().map(String::as_str), Some("create" | "restore" | "run"));
    let mut command = command(settings, spaces, Way { into_groups: makes_sandbox, with_shim: true, state })?;
    command.args(arguments).stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    Ok(Call { child: command.spawn()?, stdout, stderr })
}

/// Where the runtime writes the sandbox's pid: in its own folder, which root of the user namespace may write.
pub fn pid_file(settings: &Settings) -> PathBuf {
    settings.runtime.root.join("sandbox.pid")
}

/// A call that takes this process's place and its descriptors.
pub fn in_place(settings: &Settings, spaces: &Namespaces, state: Option<State>) -> io::Result<Command> {
    command(settings, spaces, Way { into_groups: false, with_shim: false, state })
}

/// How a call is made.
struct Way {
    /// What it leaves behind belongs to the machine's cgroups. runc puts the container there itself.
    into_groups: bool,
    /// It ends with this process.
    with_shim: bool,
    /// The folder that it sees beside the machine's own.
    state: Option<State>,
}

fn command(settings: &Settings, spaces: &Namespaces, way: Way) -> io::Result<Command> {
    let Way { into_groups, with_shim, state } = way;
    let runtime = &settings.runtime;
    // Found after the namespaces were entered: what root of the user namespace may not reach was bound for it.
    let mut command = Command::new(&runtime.path);
    command.arg("--root").arg(&runtime.root).args(&runtime.flags);
    command.env_clear().envs(&settings.environ);
    let mut groups = Vec::new();
    if into_groups && runtime.kind == RuntimeKind::Runsc {
        for group in &settings.groups {
            groups.push(File::options().write(true).open(group.join("cgroup.procs"))?);
        }
    }
    let entry = spaces.entry()?;
    let prepare = move || {
        for group in &groups {
            system::write(group.as_raw_fd(), b"0")?;
        }
        match &state {
            Some(state) => {
                entry.enter_alone()?;
                state.mount()?;
            }
            None => entry.enter()?,
        }
        // Last: taking other ids clears it. A call that outlived a killed shim would go on making what nobody looks for.
        if with_shim { die_with(0) } else { Ok(()) }
    };
    // SAFETY: the closure makes plain system calls on descriptors that were opened before.
    unsafe { command.pre_exec(prepare) };
    Ok(command)
}

fn memory_file() -> io::Result<File> {
    // SAFETY: a constant name; the new descriptor belongs to nobody else.
    unsafe {
        let descriptor: RawFd = libc::memfd_create(c"runtime".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(File::from_raw_fd(descriptor))
    }
}

fn read_back(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let done = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(OUTPUT_LIMIT_BYTES).read_to_end(&mut bytes));
    if done.is_err() { String::new() } else { String::from_utf8_lossy(&bytes).into_owned() }
}
