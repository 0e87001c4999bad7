//! Copies a tree of files that an untrusted program made: descriptor by descriptor, following nothing.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::fs::{fstat, linkat, mkdirat, mknodat, openat, readlinkat, statat, symlinkat};
use rustix::io::Errno;

use super::copies::{CopyFault, Files};
use super::copy_data::{Budget, copy_data, give_attributes, give_link_attributes};

/// Folders inside each other; each level holds two descriptors.
const DEPTH_LIMIT: usize = 256;

const FOLDERS: [&str; 3] = ["workspace", "tmp", "shm"];

/// Bytes that the quota of a workspace counts, of unlinked files too.
pub(super) fn used_bytes(files: &Files) -> io::Result<u64> {
    let status = rustix::fs::fstatfs(&files.0)?;
    Ok(status.f_blocks.saturating_sub(status.f_bfree).saturating_mul(status.f_bsize.cast_unsigned()))
}

/// Copies the three folders; those of the target are there and empty.
pub(super) fn copy_all(
    source: &Files,
    target: &Files,
    owner: Option<(u32, u32)>,
    limit_bytes: u64,
) -> Result<(), CopyFault> {
    let device = fstat(&source.0).map_err(io::Error::from)?.st_dev;
    let budget = Budget { bytes: 0, limit_bytes };
    let mut copier = Copier { owner, device, budget, root: target.0.as_fd(), links: HashMap::new() };
    for name in FOLDERS {
        let name = CString::new(name).map_err(io::Error::from)?;
        let status = statat(&source.0, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)?;
        let place = Place { source: source.0.as_fd(), target: target.0.as_fd(), path: Path::new("") };
        copier.copy_inside(&place, &name, &status, 0)?;
    }
    Ok(())
}

struct Copier<'a> {
    owner: Option<(u32, u32)>,
    device: u64,
    budget: Budget,
    root: BorrowedFd<'a>,
    /// Files with several names, and the name below `root` that the copy got first.
    links: HashMap<u64, PathBuf>,
}

/// A folder of both trees.
struct Place<'a> {
    source: BorrowedFd<'a>,
    target: BorrowedFd<'a>,
    /// Below the root.
    path: &'a Path,
}

impl Copier<'_> {
    /// Copies what is inside a folder of `place` that the target has already, then its attributes.
    fn copy_inside(&mut self, place: &Place<'_>, name: &CString, status: &Stat, depth: usize) -> Result<(), CopyFault> {
        let path = place.path.join(text(name));
        let failed = |error: Errno| fault(&path, error);
        if depth > DEPTH_LIMIT {
            return Err(refuse(&path, format!("more than {DEPTH_LIMIT} folders inside each other")));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let source = open_unseen(place.source, name, flags).map_err(failed)?;
        let target = openat(place.target, name, flags, Mode::empty()).map_err(failed)?;
        let inside = Place { source: source.as_fd(), target: target.as_fd(), path: &path };
        for name in names(source.as_fd()).map_err(failed)? {
            self.copy_entry(&inside, &name, depth)?;
        }
        give_attributes(&source, &target, status, self.owner).map_err(failed)
    }

    fn copy_entry(&mut self, place: &Place<'_>, name: &CString, depth: usize) -> Result<(), CopyFault> {
        let path = place.path.join(text(name));
        let failed = |error: Errno| fault(&path, error);
        let status = match statat(place.source, name, AtFlags::SYMLINK_NOFOLLOW) {
            // Gone since it was listed.
            Err(Errno::NOENT) => return Ok(()),
            other => other.map_err(failed)?,
        };
        if status.st_dev != self.device {
            return Err(refuse(&path, "it is on another file system"));
        }
        let kind = FileType::from_raw_mode(status.st_mode);
        if kind == FileType::Directory {
            mkdirat(place.target, name, Mode::RWXU).map_err(failed)?;
            return self.copy_inside(place, name, &status, depth + 1);
        }
        if status.st_nlink > 1 {
            if let Some(first) = self.links.get(&status.st_ino) {
                return linkat(self.root, first, place.target, name, AtFlags::empty()).map_err(failed);
            }
            self.links.insert(status.st_ino, path.clone());
        }
        match kind {
            FileType::RegularFile => return self.copy_file(place, name, &path),
            FileType::Symlink => {
                let leads_to = readlinkat(place.source, name, Vec::new()).map_err(failed)?;
                symlinkat(&leads_to, place.target, name).map_err(failed)?;
            }
            FileType::Fifo | FileType::Socket => {
                mknodat(place.target, name, kind, Mode::RUSR | Mode::WUSR, 0).map_err(failed)?;
            }
            _ => return Err(refuse(&path, "it is a device")),
        }
        give_link_attributes(place.target, name, kind, &status, self.owner).map_err(failed)
    }

    fn copy_file(&mut self, place: &Place<'_>, name: &CString, path: &Path) -> Result<(), CopyFault> {
        let failed = |error: Errno| fault(path, error);
        // Non-blocking: what was a file may have become a pipe since.
        let reading = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let source = open_unseen(place.source, name, reading).map_err(failed)?;
        let status = fstat(&source).map_err(failed)?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(refuse(path, "it changes while it is copied"));
        }
        let writing = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = openat(place.target, name, writing, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let size_bytes = status.st_size.cast_unsigned();
        if !copy_data(&source, &target, size_bytes, &mut self.budget).map_err(failed)? {
            return Err(CopyFault::TooLarge { bytes: self.budget.bytes, limit_bytes: self.budget.limit_bytes });
        }
        give_attributes(&source, &target, &status, self.owner).map_err(failed)
    }
}

/// Opens what is read without leaving a trace of that in its times, where that is allowed.
fn open_unseen(folder: BorrowedFd<'_>, name: &CString, flags: OFlags) -> Result<OwnedFd, Errno> {
    match openat(folder, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => openat(folder, name, flags, Mode::empty()),
        other => other,
    }
}

fn names(folder: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if name.as_bytes() != b"." && name.as_bytes() != b".." {
            found.push(name);
        }
    }
    Ok(found)
}

fn text(name: &CString) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name.as_bytes())
}

fn fault(path: &Path, error: Errno) -> CopyFault {
    refuse(path, io::Error::from(error))
}

fn refuse(path: &Path, why: impl std::fmt::Display) -> CopyFault {
    CopyFault::Failed(io::Error::other(format!("{path:?} cannot be copied: {why}")))
}
