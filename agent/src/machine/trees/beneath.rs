//! Folders below a root, reached without a link that leads out of it.

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The folder that is written into, and the one that was reached last.
pub struct Root {
    folder: OwnedFd,
    last: Option<(PathBuf, OwnedFd)>,
}

/// Parts of a relative path; `None` for one that is absolute or leads upwards.
pub fn parts(path: &Path) -> Option<Vec<&OsStr>> {
    let part = |component| match component {
        Component::Normal(name) => Some(Some(name)),
        Component::CurDir => Some(None),
        _ => None,
    };
    path.components().map(part).collect::<Option<Vec<_>>>().map(|parts| parts.into_iter().flatten().collect())
}

impl Root {
    /// A folder that is there.
    pub fn open(path: &str) -> io::Result<Self> {
        let folder = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { folder, last: None })
    }

    /// The root itself.
    pub fn folder(&self) -> &OwnedFd {
        &self.folder
    }

    /// The folder with these parts, made where it is missing.
    pub fn reach(&mut self, parts: &[&OsStr]) -> io::Result<&OwnedFd> {
        let path: PathBuf = parts.iter().collect();
        if self.last.as_ref().is_none_or(|(last, _)| *last != path) {
            let folder = if parts.is_empty() { self.folder.try_clone()? } else { self.descend(parts)? };
            self.last = Some((path, folder));
        }
        Ok(&self.last.as_ref().expect("just reached").1)
    }

    /// The folder reached last may have been replaced.
    pub fn forget(&mut self) {
        self.last = None;
    }

    fn descend(&self, parts: &[&OsStr]) -> io::Result<OwnedFd> {
        let whole: PathBuf = parts.iter().collect();
        match self.open_beneath(&whole) {
            Err(Errno::NOENT | Errno::NOSYS | Errno::PERM) => {}
            other => return other.map_err(Into::into),
        }
        let mut folder = self.folder.try_clone()?;
        let mut path = PathBuf::new();
        for part in parts {
            path.push(part);
            folder = match self.enter(&folder, &path, part) {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&folder, *part, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    self.enter(&folder, &path, part)?
                }
                other => other?,
            };
        }
        Ok(folder)
    }

    fn enter(&self, above: &OwnedFd, path: &Path, part: &OsStr) -> Result<OwnedFd, Errno> {
        match self.open_beneath(path) {
            // Kernels without openat2 (and filters that forbid it): no link at all is followed.
            Err(Errno::NOSYS | Errno::PERM) => {
                rustix::fs::openat(above, part, FOLDER | OFlags::NOFOLLOW, Mode::empty())
            }
            other => other,
        }
    }

    fn open_beneath(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        loop {
            match rustix::fs::openat2(self.folder.as_fd(), path, FOLDER, Mode::empty(), resolve) {
                // A rename or mount elsewhere came between.
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
    }
}

/// Removes what stands at a name, unless it is a folder.
pub fn clear(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
