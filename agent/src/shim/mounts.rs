//! What is mounted for one machine on the host, in a mount namespace of its own: it goes with the last process in there.

use super::namespaces::check;
use super::settings::{Idmap, Mount, Settings, Uids};
use super::shift::shift_tree;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

const SAFE: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV;

/// Mounts from here on are seen by nobody else; what the host unmounts goes here too.
pub fn keep_to_itself() -> io::Result<()> {
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_SLAVE, None)
}

/// Gives a namespace a path.
pub fn bind_namespace(namespace: &File, target: &Path) -> io::Result<()> {
    let source = format!("/proc/self/fd/{}", namespace.as_raw_fd());
    mount(Some(&source), target, None, libc::MS_BIND, None).map_err(|error| explain(error, target))
}

/// Makes one mount. Errors name what was to be mounted.
pub fn make(wanted: &Mount, settings: &Settings, user: Option<&File>) -> io::Result<()> {
    match wanted {
        Mount::Bind { source, target, read_only, idmap } => {
            bind(source, target, *read_only, *idmap, user).map_err(|error| explain(error, source))
        }
        Mount::Ext4 { source, target, folders, unpack } => loop_mount(source, target)
            .and_then(|()| fill(target, folders, unpack.as_deref(), settings.uids))
            .map_err(|error| explain(error, source)),
        Mount::Overlay { lower, upper, work, target } => {
            let options =
                format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
            mount(Some("overlay"), target, Some("overlay"), SAFE, Some(&options))
                .map_err(|error| explain(error, target))
        }
        Mount::Layers { folders, target } => {
            let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            let options = format!("lowerdir={}", folders.join(":"));
            mount(Some("overlay"), target, Some("overlay"), SAFE | libc::MS_RDONLY, Some(&options))
                .map_err(|error| explain(error, target))
        }
        Mount::Check { root, folders } => check_folders(root, folders),
    }
}

fn bind(source: &Path, target: &Path, read_only: bool, idmap: Idmap, user: Option<&File>) -> io::Result<()> {
    move_tree(&detached(source, read_only, idmap, user)?, &path(target)?)
}

/// What stands at a path as a mount that is nowhere yet.
pub fn detached(source: &Path, read_only: bool, idmap: Idmap, user: Option<&File>) -> io::Result<OwnedFd> {
    let tree = open_tree(source)?;
    let mut attributes = Attributes { set: MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, ..Attributes::default() };
    if read_only {
        attributes.set |= MOUNT_ATTR_RDONLY;
    }
    attributes.apply(&tree, libc::AT_RECURSIVE)?;
    if let (Idmap::Try | Idmap::Must, Some(user)) = (idmap, user) {
        let mapping = Attributes { set: MOUNT_ATTR_IDMAP, user: user.as_raw_fd() as u64, ..Attributes::default() };
        match mapping.apply(&tree, 0) {
            Err(error) if idmap == Idmap::Must => {
                return Err(io::Error::new(error.kind(), format!("this file system cannot map ids ({error})")));
            }
            _ => {}
        }
    }
    Ok(tree)
}

/// Puts a detached mount at its place; plain calls only.
pub fn move_tree(tree: &OwnedFd, target: &CString) -> io::Result<()> {
    // SAFETY: a tree this process owns and two strings that end with NUL.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            target.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        ) as i32
    })
}

const MOUNT_ATTR_RDONLY: u64 = 0x1;
const MOUNT_ATTR_NOSUID: u64 = 0x2;
const MOUNT_ATTR_NODEV: u64 = 0x4;
const MOUNT_ATTR_IDMAP: u64 = 0x10_0000;
const OPEN_TREE_CLONE: i32 = 1;
const MOVE_MOUNT_F_EMPTY_PATH: i32 = 4;

/// `struct mount_attr` of mount_setattr(2).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user: u64,
}

impl Attributes {
    fn apply(&self, tree: &OwnedFd, flags: i32) -> io::Result<()> {
        // SAFETY: a tree this process owns, an empty path, and a struct of the size that is told.
        check(unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                tree.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH | flags,
                std::ptr::from_ref(self),
                size_of::<Self>(),
            ) as i32
        })
    }
}

/// A detached copy of what stands at a path, mounts below it included.
fn open_tree(source: &Path) -> io::Result<OwnedFd> {
    let source = path(source)?;
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC | libc::AT_RECURSIVE;
    // SAFETY: a string that ends with NUL; the new descriptor belongs to nobody else.
    unsafe {
        let tree = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, source.as_ptr(), flags);
        if tree < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(tree as i32))
    }
}

/// The loop device frees itself with its last mount. `mount` finds one; the program is on every Linux.
fn loop_mount(source: &Path, target: &Path) -> io::Result<()> {
    run(Command::new("mount").args(["-t", "ext4", "-o", "loop,nosuid,nodev,noatime"]).arg(source).arg(target))
}

fn fill(target: &Path, folders: &[String], unpack: Option<&Path>, uids: Option<Uids>) -> io::Result<()> {
    for name in folders {
        let folder = target.join(name);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) => {}
            Ok(()) => {
                if let Some(Uids { base, .. }) = uids {
                    chown(&folder, Some(base), Some(base))?;
                }
            }
        }
    }
    let (Some(tar), Some(first)) = (unpack, folders.first()) else { return Ok(()) };
    run(Command::new("tar")
        .args(["--extract", "--numeric-owner", "--same-owner", "--preserve-permissions", "--xattrs"])
        .args(["--xattrs-include=*", "--file"])
        .arg(tar)
        .arg("--directory")
        .arg(target.join(first)))?;
    uids.map_or(Ok(()), |uids| shift_tree(&target.join(first), uids))
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().chars().take(500).collect::<String>();
    Err(io::Error::other(format!("{} ended with {}: {said}", command.get_program().display(), output.status)))
}

fn check_folders(root: &Path, folders: &[String]) -> io::Result<()> {
    for name in folders {
        let folder = root.join(name);
        let opened = fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_DIRECTORY | libc::O_PATH)
            .open(&folder);
        match opened {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => {
                return Err(io::Error::other(format!(
                    "image refused: /{name} is a link or a file, and has to be a folder or missing"
                )));
            }
        }
    }
    Ok(())
}

fn mount(
    source: Option<&str>,
    target: &Path,
    kind: Option<&str>,
    flags: libc::c_ulong,
    data: Option<&str>,
) -> io::Result<()> {
    let text = |value: Option<&str>| value.map(CString::new).transpose().map_err(io::Error::from);
    let (source, kind, data, target) = (text(source)?, text(kind)?, text(data)?, path(target)?);
    let pointer = |value: &Option<CString>| value.as_ref().map_or(std::ptr::null(), |value| value.as_ptr());
    // SAFETY: strings that end with NUL and outlive the call, or null.
    check(unsafe { libc::mount(pointer(&source), target.as_ptr(), pointer(&kind), flags, pointer(&data).cast()) })
}

/// For the kernel.
pub fn path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn explain(error: io::Error, what: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("mount {}: {error}", what.display()))
}
