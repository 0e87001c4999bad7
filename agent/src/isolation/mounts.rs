//! The mounts of a row: what a child binds for itself, and detached copies to hand to a live fork.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use super::identity::{Identity, WORKSPACES};
use super::launch::{Failure, Step, c_string};
use super::sys::{check, explain};

/// The folders of a workspace and where a row sees them.
pub(super) const FOLDERS: [(&str, &CStr); 3] = [("workspace", c"/workspace"), ("tmp", c"/tmp"), ("shm", c"/dev/shm")];

/// The binds of one row, ready to be made without allocation.
pub(super) struct PrivateMounts {
    sources: [CString; 3],
}

impl PrivateMounts {
    pub(super) fn of(id: &Identity) -> io::Result<Self> {
        let source = |folder: &str| c_string(format!("{}/{folder}", id.workspace.display()));
        let [first, second, third] = FOLDERS.map(|(folder, _)| source(folder));
        Ok(Self { sources: [first?, second?, third?] })
    }

    /// Gives the calling process a mount namespace of its own, with the row's folders in place and no
    /// other row's quota mount, which would keep that row's files alive.
    pub(super) fn enter(&self) -> Result<(), Failure> {
        // SAFETY: takes no pointer.
        check(unsafe { libc::unshare(libc::CLONE_NEWNS) }).map_err(Step::Namespace.failed())?;
        self.bind().map_err(Step::Mounts.failed())
    }

    fn bind(&self) -> io::Result<()> {
        let seal = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_NOSUID | libc::MS_NODEV;
        for (source, (_, target)) in self.sources.iter().zip(FOLDERS) {
            mount(source, target, None, libc::MS_BIND, None)?;
            mount(c"none", target, None, seal, None)?;
        }
        detach(WORKSPACES_C)
    }
}

const WORKSPACES_C: &CStr = c"/run/ws";
const _: () = assert!(WORKSPACES.len() + 1 == WORKSPACES_C.to_bytes_with_nul().len());

/// Detached copies of a row's three folders, in the order `/workspace`, `/tmp`, `/dev/shm`.
///
/// A live environment's mount namespace cannot see what the agent mounts later. Its fork gets these
/// descriptors instead and attaches each with `move_mount(fd, "", AT_FDCWD, target, 4)`.
pub(super) fn detached(id: &Identity) -> io::Result<[OwnedFd; 3]> {
    let mounts = PrivateMounts::of(id)?;
    let [first, second, third] = mounts.sources.each_ref().map(|path| open_tree(path));
    Ok([first?, second?, third?])
}

fn open_tree(path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
    // SAFETY: the path is a C string; the descriptor returned is open and ours.
    unsafe {
        let fd = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags);
        let fd =
            check(fd as libc::c_int).map_err(|error| explain(error, format!("cannot clone the mount {path:?}")))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

pub(super) fn mount(
    source: &CStr,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: every pointer is null or a C string that outlives the call.
    let result =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), pointer(kind), flags, pointer(options).cast()) };
    check(result).map(drop)
}

/// Takes a mount and everything below it out of this namespace; it lives on while others hold it.
pub(super) fn detach(target: &CStr) -> io::Result<()> {
    // SAFETY: the target is a C string.
    check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }).map(drop)
}
