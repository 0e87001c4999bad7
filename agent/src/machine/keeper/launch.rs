//! Starting the program: argv and variables go to the kernel as they are, never through a shell.

use super::Specification;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A step that failed.
pub struct Failure {
    /// The system's error.
    pub errno: i32,
    /// Which step.
    pub what: &'static str,
}

const STEPS: [&str; 4] = ["keeper", "user", "cwd", "program"];

/// Starts it and returns its pid once the kernel runs it.
pub fn launch(specification: &Specification) -> Result<i32, Failure> {
    let failure = |error: io::Error| Failure { errno: error.raw_os_error().unwrap_or(libc::EIO), what: "keeper" };
    let words = strings(specification.argv.iter().cloned())?;
    let variables = strings(specification.environ.iter().map(|(name, value)| format!("{name}={value}")))?;
    let (reader, writer) = crate::system::pipe().map_err(failure)?;
    // SAFETY: this process has one thread, so the child may do what it likes.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(failure(io::Error::last_os_error()));
    }
    if pid == 0 {
        let (step, error) = become_program(specification, &words, &variables);
        let mut report = [0; 8];
        report[..4].copy_from_slice(&error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes());
        report[4] = STEPS.iter().position(|name| *name == step).unwrap_or(0) as u8;
        let _ = crate::system::write(writer.as_raw_fd(), &report);
        // SAFETY: takes no pointer and does not return.
        unsafe { libc::_exit(127) };
    }
    drop(writer);
    let mut report = [0; 8];
    match crate::system::read(reader.as_raw_fd(), &mut report) {
        Ok(8) => {
            // SAFETY: collects our own child; the status is not needed.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            let errno = i32::from_ne_bytes([report[0], report[1], report[2], report[3]]);
            Err(Failure { errno, what: STEPS[usize::from(report[4]) % STEPS.len()] })
        }
        _ => Ok(pid),
    }
}

fn strings(words: impl Iterator<Item = String>) -> Result<Vec<CString>, Failure> {
    let strings: Result<Vec<CString>, _> = words.map(CString::new).collect();
    strings.map_err(|_| Failure { errno: libc::EINVAL, what: "program" })
}

/// Everything between fork and exec; only a failure returns.
fn become_program(
    specification: &Specification,
    words: &[CString],
    variables: &[CString],
) -> (&'static str, io::Error) {
    reset_signals();
    if let Err(error) = own_session(specification) {
        return ("keeper", error);
    }
    if let Err(error) = specification.credentials.take() {
        return ("user", error);
    }
    // As that user: a folder it may not enter is refused.
    if let Err(error) = enter(&specification.cwd)
        && (specification.cwd_required || enter("/").is_err())
    {
        return ("cwd", error);
    }
    keep_three_descriptors();
    ("program", execute(words, variables, specification.environ.get("PATH").map_or("", String::as_str)))
}

fn own_session(specification: &Specification) -> io::Result<()> {
    // SAFETY: the calls take numbers, and a struct that lives here.
    unsafe {
        if libc::setsid() < 0 {
            return Err(io::Error::last_os_error());
        }
        if specification.tty && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::umask(0o022);
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if let Some(soft) = specification.descriptor_limit
            && libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0
        {
            limit.rlim_cur = soft.min(limit.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
    Ok(())
}

/// Enters a folder without passing through the links of `/proc/<pid>/fd`, which lead out of any root.
fn enter(path: &str) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        // SAFETY: the descriptor is open.
        Ok(folder) if unsafe { libc::fchdir(folder.as_raw_fd()) } == 0 => {}
        Ok(_) => return Err(io::Error::last_os_error()),
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => std::env::set_current_dir(path)?,
        Err(error) => return Err(error.into()),
    }
    // Outside the root the kernel says "(unreachable)" in front.
    let inside = std::env::current_dir()?.is_absolute();
    if inside { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOENT)) }
}

/// Default handlers and an empty mask: what a program expects, whatever the agent ignores or blocks.
fn reset_signals() {
    // SAFETY: the set is initialised before use; SIG_DFL is a valid handler.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        for signal in 1..65 {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Closed by the exec itself, so that a failure can still be told.
fn keep_three_descriptors() {
    const CLOSE_ON_EXEC: libc::c_uint = 1 << 2;
    // SAFETY: takes numbers only.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOSE_ON_EXEC) } == 0 {
        return;
    }
    for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        if let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok())
            && number > 2
        {
            // SAFETY: takes numbers only.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// The program, looked for in `path` when its name has no slash. Returns the error that says most.
fn execute(words: &[CString], variables: &[CString], path: &str) -> io::Error {
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(words), pointers(variables));
    let run = |program: &CStr| {
        // SAFETY: all strings end with a NUL, both lists with a null pointer.
        unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
        io::Error::last_os_error()
    };
    let name = words[0].to_bytes();
    if name.contains(&b'/') {
        return run(&words[0]);
    }
    let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
    for folder in path.split(':').filter(|folder| folder.starts_with('/')) {
        let Ok(program) = CString::new([folder.as_bytes(), b"/", name].concat()) else { continue };
        let error = run(&program);
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => worst = error,
            _ => return error,
        }
    }
    worst
}

/// `/dev/null` in place of the program's three: the keeper must not hold its pipes open.
pub fn let_go_of_streams() -> io::Result<()> {
    // SAFETY: plain calls; the new descriptor is ours.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null < 0 {
            return Err(io::Error::last_os_error());
        }
        let null = OwnedFd::from_raw_fd(null);
        for number in 0..3 {
            libc::dup2(null.as_raw_fd(), number);
        }
    }
    Ok(())
}
