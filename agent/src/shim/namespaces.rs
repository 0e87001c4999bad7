//! The machine's own mount namespace on the host and, for runsc, its user namespace; where it has a network, that too. A
//! process that only sleeps holds them, so that they outlive a shim that is killed.

use super::identity::Identity;
use super::mounts;
use super::settings::{Settings, Uids};
use crate::system;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// File in the machine's folder that names the holder.
pub const HOLDER_FILE: &str = "holder.json";

/// The namespaces.
#[derive(Debug)]
pub struct Namespaces {
    entry: Entry,
}

/// What a process needs to enter.
#[derive(Debug)]
pub struct Entry {
    mount: File,
    user: Option<File>,
}

impl Namespaces {
    /// Makes both and everything that is mounted in them.
    pub fn make(settings: &Settings, folder: &Path) -> io::Result<Self> {
        let made = match settings.uids {
            Some(uids) => Some(make_user_namespace(uids, settings.network)?),
            None => None,
        };
        let (holder, registered) = fork_holder(settings, folder, made.as_ref())?;
        let identity = Identity::of(holder).ok_or_else(|| io::Error::other("the holder of the namespaces ended"))?;
        identity.write(&folder.join(HOLDER_FILE))?;
        system::write(registered.as_raw_fd(), b"1")?;
        Self::of(holder, settings.user_namespace)
    }

    /// Makes them for this process alone, which enters them.
    pub fn enter_new(settings: &Settings, folder: &Path) -> io::Result<()> {
        let made = match settings.uids {
            Some(uids) => Some(make_user_namespace(uids, settings.network)?),
            None => None,
        };
        enter_new(settings, folder, made.as_ref())?;
        to_root()
    }

    /// Those of a machine whose shim was killed; `None` when the holder is gone too.
    pub fn adopt(settings: &Settings, folder: &Path) -> Option<Self> {
        let identity = Identity::read(&folder.join(HOLDER_FILE))?;
        let _pinned = identity.open()?;
        Self::of(identity.pid, settings.user_namespace).ok()
    }

    fn of(holder: i32, with_user: bool) -> io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/{holder}/ns/{name}"));
        let user = if with_user { Some(open("user")?) } else { None };
        Ok(Self { entry: Entry { mount: open("mnt")?, user } })
    }

    /// For one process.
    pub fn entry(&self) -> io::Result<Entry> {
        let Entry { mount, user } = &self.entry;
        Ok(Entry { mount: mount.try_clone()?, user: user.as_ref().map(File::try_clone).transpose()? })
    }
}

impl Entry {
    /// Enters both; only between fork and exec, for it makes plain calls only.
    pub fn enter(&self) -> io::Result<()> {
        // The user namespace first: it owns the mount namespace.
        if let Some(user) = &self.user {
            enter(user, libc::CLONE_NEWUSER)?;
        }
        enter(&self.mount, libc::CLONE_NEWNS)?;
        if self.user.is_some() {
            become_root()?;
        }
        to_root()
    }

    /// Enters both, and a mount namespace that only this process has and that goes with it.
    pub fn enter_alone(&self) -> io::Result<()> {
        self.enter()?;
        // SAFETY: takes a number only.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) })
    }

    /// Enters the mount namespace only.
    pub fn enter_mounts(&self) -> io::Result<()> {
        enter(&self.mount, libc::CLONE_NEWNS)?;
        to_root()
    }
}

fn to_root() -> io::Result<()> {
    // SAFETY: a constant string.
    check(unsafe { libc::chdir(c"/".as_ptr()) })
}

fn enter(namespace: &File, kind: i32) -> io::Result<()> {
    // SAFETY: a descriptor this process owns.
    check(unsafe { libc::setns(namespace.as_raw_fd(), kind) })
}

/// Root of the user namespace this process is in.
fn become_root() -> io::Result<()> {
    // SAFETY: takes numbers only; no group list is read when its length is 0.
    unsafe {
        check(libc::setgroups(0, std::ptr::null()))?;
        check(libc::setresgid(0, 0, 0))?;
        check(libc::setresuid(0, 0, 0))
    }
}

/// By descriptor, before any process stays in them.
struct Made {
    user: File,
    /// Owned by the user namespace: only then may the machine's root do in it what a root does.
    network: Option<File>,
}

/// Names of the files in the machine's folder onto which the namespaces are bound, for the container's spec to join.
const USER_FILE: &str = "userns";
const NETWORK_FILE: &str = "netns";

/// A user namespace in which ids 0… are those host ids. A child makes it and this process, which may, writes its maps.
fn make_user_namespace(uids: Uids, with_network: bool) -> io::Result<Made> {
    let (ready_read, ready_write) = system::pipe()?;
    let (done_read, done_write) = system::pipe()?;
    let child = fork(|| {
        drop_ends([&ready_read, &done_write]);
        let network = if with_network { libc::CLONE_NEWNET } else { 0 };
        // SAFETY: takes a number only.
        check(unsafe { libc::unshare(libc::CLONE_NEWUSER | network) })?;
        if with_network {
            raise_loopback()?;
        }
        system::write(ready_write.as_raw_fd(), b"1")?;
        system::read(done_read.as_raw_fd(), &mut [0]).map(drop)
    })?;
    drop(ready_write);
    drop(done_read);
    let made = (|| {
        if system::read(ready_read.as_raw_fd(), &mut [0])? == 0 {
            return Err(io::Error::other("unshare of a user namespace was refused (sysctl user.max_user_namespaces?)"));
        }
        for name in ["uid_map", "gid_map"] {
            let line = format!("0 {} {}\n", uids.base, uids.count);
            fs::write(format!("/proc/{child}/{name}"), line).map_err(|error| explain(error, name))?;
        }
        let open = |name: &str| File::open(format!("/proc/{child}/ns/{name}"));
        Ok(Made { user: open("user")?, network: if with_network { Some(open("net")?) } else { None } })
    })();
    drop(done_write);
    wait(child);
    made
}

/// Forks the process that makes the mounts, enters the user namespace, and then sleeps for good. Until it is told through
/// the returned pipe that its file was written it ends with this process: nobody else could find it.
fn fork_holder(settings: &Settings, folder: &Path, made: Option<&Made>) -> io::Result<(i32, OwnedFd)> {
    let (read, write) = system::pipe()?;
    let (wait_read, wait_write) = system::pipe()?;
    let shim = std::process::id();
    let holder = fork(|| {
        drop_ends([&read, &wait_write]);
        die_with(shim)?;
        if let Err(error) = enter_new(settings, folder, made) {
            let _ = system::write(write.as_raw_fd(), error.to_string().as_bytes());
            return Err(error);
        }
        // Where it took other ids the kernel has forgotten.
        die_with(0)?;
        system::write(write.as_raw_fd(), b"\0")?;
        if system::read(wait_read.as_raw_fd(), &mut [0])? == 0 {
            return Err(io::Error::other("the shim has ended"));
        }
        // SAFETY: takes numbers only.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
        close_all();
        sleep_for_good()
    })?;
    drop(write);
    let mut said = [0; 1024];
    let count = system::read(read.as_raw_fd(), &mut said)?;
    if count == 1 && said[0] == 0 {
        return Ok((holder, wait_write));
    }
    wait(holder);
    Err(io::Error::other(String::from_utf8_lossy(&said[..count]).into_owned()))
}

fn enter_new(settings: &Settings, folder: &Path, made: Option<&Made>) -> io::Result<()> {
    // SAFETY: takes a number only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mounts::keep_to_itself()?;
    for mount in &settings.mounts {
        mounts::make(mount, settings, made.map(|made| &made.user))?;
    }
    let Some(made) = made else { return Ok(()) };
    if let Some(network) = &made.network {
        mounts::bind_namespace(&made.user, &folder.join(USER_FILE))?;
        mounts::bind_namespace(network, &folder.join(NETWORK_FILE))?;
        // So that tools can name the network by this process.
        enter(network, libc::CLONE_NEWNET)?;
    }
    if settings.user_namespace {
        enter(&made.user, libc::CLONE_NEWUSER)?;
        become_root()?;
        // The runtime mounts too: it needs a mount namespace that this user namespace owns.
        // SAFETY: takes a number only.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    }
    Ok(())
}

/// No runtime does it in a namespace that it only joins.
fn raise_loopback() -> io::Result<()> {
    // SAFETY: the kernel reads and fills the struct, whose name ends with NUL; the socket is this function's own.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        check(socket)?;
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[..2].copy_from_slice(&[b'l' as libc::c_char, b'o' as libc::c_char]);
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        let done = check(libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &raw mut request));
        libc::close(socket);
        done
    }
}

/// Runs `work` in a child and ends it with 0 or 1.
fn fork(work: impl FnOnce() -> io::Result<()>) -> io::Result<i32> {
    // SAFETY: the shim has one thread, so that the child may do everything.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid > 0 {
        return Ok(pid);
    }
    let code = i32::from(work().is_err());
    // SAFETY: ends this process without the parent's exit handlers.
    unsafe { libc::_exit(code) }
}

/// SIGKILL when the parent ends. `parent`: its number, 0 where it may have become invisible.
pub(super) fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if parent != 0 && libc::getppid() as u32 != parent {
            return Err(io::Error::other("the shim has ended"));
        }
    }
    Ok(())
}

fn drop_ends(ends: [&OwnedFd; 2]) {
    for end in ends {
        // SAFETY: this process is about to end; its copies of the parent's ends are never used again.
        unsafe { libc::close(end.as_raw_fd()) };
    }
}

/// The holder keeps no file of the shim open, its lock least of all.
fn close_all() {
    // SAFETY: nothing of this process uses a descriptor from here on.
    unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
}

fn sleep_for_good() -> io::Result<()> {
    // SAFETY: plain calls; SIGCHLD of the helpers that mounted may have been blocked, which changes nothing here.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        libc::prctl(libc::PR_SET_NAME, c"sandpool-hold".as_ptr());
        loop {
            libc::pause();
        }
    }
}

fn wait(pid: i32) {
    let mut status = 0;
    // SAFETY: status outlives the call.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

pub(super) fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn explain(error: io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
