//! The folder of a state, seen by one call of the runtime alone: the mount is in a namespace that goes with the call.

use super::mounts;
use super::settings::Idmap;
use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where the call finds it, in the machine's folder.
const PLACE: &str = "state";

/// A folder that is not mounted anywhere yet.
pub struct State {
    tree: OwnedFd,
    place: PathBuf,
    target: CString,
}

impl State {
    /// Of a folder of the host, wherever it lies.
    pub fn open(machine: &Path, folder: &Path, writable: bool) -> io::Result<Self> {
        let place = machine.join(PLACE);
        if !fs::exists(&place)? {
            DirBuilder::new().mode(0o711).create(&place)?;
        }
        let explain = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        let tree = mounts::detached(folder, !writable, Idmap::No, None).map_err(explain)?;
        Ok(Self { tree, target: mounts::path(&place)?, place })
    }

    /// Its path for the call.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Mounts it in the namespace of the calling process; only between fork and exec, for it makes plain calls only.
    pub fn mount(&self) -> io::Result<()> {
        mounts::move_tree(&self.tree, &self.target)
    }
}
