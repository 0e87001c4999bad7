//! Copies of a row's private files, for a copy of its process.

use std::io;
use std::os::fd::OwnedFd;

use super::{Identity, Isolation};

/// The folders of a live row, held open: its process alone has them mounted.
#[derive(Debug)]
pub struct Files(pub(super) OwnedFd);

/// Why files cannot be copied.
#[derive(Debug)]
pub enum CopyFault {
    /// There is more than may be copied.
    TooLarge {
        /// What there is, or as much as was seen of it.
        bytes: u64,
        /// What may be copied.
        limit_bytes: u64,
    },
    /// Something in it cannot be copied.
    Failed(io::Error),
}

impl From<io::Error> for CopyFault {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(target_os = "linux")]
impl Isolation {
    /// Holds the row's folders open. Call between create and detach.
    pub fn open_files(&self, id: &Identity) -> io::Result<Files> {
        use rustix::fs::{Mode, OFlags, open};
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Files(open(&id.workspace, flags, Mode::empty())?))
    }

    /// Copies a row's files into the workspace of `id`, which was just made: holes stay holes, hard links stay hard
    /// links, everything belongs to `id`. Never follows a symbolic link.
    pub fn copy_files(&self, source: &Files, id: &Identity, limit_bytes: u64) -> Result<(), CopyFault> {
        let target = self.open_files(id)?;
        if self.settings.isolated {
            let used_bytes = super::copy_files::used_bytes(source)?;
            if used_bytes > limit_bytes {
                return Err(CopyFault::TooLarge { bytes: used_bytes, limit_bytes });
            }
        }
        let owner = self.settings.isolated.then_some((id.uid, id.gid));
        super::copy_files::copy_all(source, &target, owner, limit_bytes)
    }
}

#[cfg(not(target_os = "linux"))]
impl Isolation {
    /// Only Linux copies files.
    pub fn open_files(&self, _: &Identity) -> io::Result<Files> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the files of an environment are copied on Linux only"))
    }

    /// Only Linux copies files.
    pub fn copy_files(&self, _: &Files, _: &Identity, _: u64) -> Result<(), CopyFault> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the files of an environment are copied on Linux only").into())
    }
}
