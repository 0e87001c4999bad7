//! `tree.write`

use super::beneath::{self, Root};
use super::budget::{Budget, Budgeted};
use crate::channel::error::RequestError;
use crate::machine::files::check_path;
use crate::machine::files::errors::{failed, invalid};
use crate::machine::run::{Answered, Machine, Ticket};
use crate::machine::streams::{Inbound, Receiver};
use crate::machine::work::Order;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use tar::{Entry, EntryType};

const ENTRIES: u64 = 1_000_000;

/// The head of the request.
#[derive(Debug, Deserialize)]
pub struct WriteTree {
    path: String,
    s: u64,
    #[serde(default)]
    user: Option<String>,
    /// Most entries.
    #[serde(default)]
    entries: Option<u64>,
    /// Most bytes of files.
    #[serde(default)]
    bytes: Option<u64>,
}

impl Machine {
    /// Writes a tar into a folder: `{"entries","bytes"}` once all of it is on the disk.
    pub(in crate::machine) fn tree_write(
        &mut self,
        ticket: Ticket,
        request: WriteTree,
    ) -> Result<Answered, RequestError> {
        check_path(&request.path)?;
        self.credentials(request.user.as_deref())?;
        let queue = self.streams.add_incoming(request.s)?;
        let user = request.user.clone();
        self.work(ticket, user.as_deref(), Order::default(), move || {
            let result = write(&request, &queue);
            queue.close();
            result
        })
    }
}

/// An extraction in progress.
struct Extraction<'a> {
    request: &'a WriteTree,
    root: Root,
    entries: u64,
    bytes: u64,
    /// Folders get their modes last: one that may not be written would take no files.
    modes: Vec<(PathBuf, u32)>,
}

fn write(request: &WriteTree, queue: &Inbound) -> Result<Value, RequestError> {
    let failure = |error: io::Error| failed("write tree", &request.path, &error);
    fs::create_dir_all(&request.path).map_err(failure)?;
    let root = Root::open(&request.path).map_err(failure)?;
    let mut extraction = Extraction { request, root, entries: 0, bytes: 0, modes: Vec::new() };
    extraction.run(queue).map_err(|mut error| {
        let done = format!("{}; {} entries were written", error.message, extraction.entries);
        error.message = done;
        error
    })?;
    rustix::fs::syncfs(extraction.root.folder()).map_err(|error| failure(error.into()))?;
    Ok(json!({"entries": extraction.entries, "bytes": extraction.bytes}))
}

impl Extraction<'_> {
    fn run(&mut self, queue: &Inbound) -> Result<(), RequestError> {
        let broken = |error: io::Error| invalid(&self.request.path, format!("got no whole tar: {error}"));
        let budget = Budget::default();
        let mut archive = tar::Archive::new(Budgeted { reader: Receiver(queue), budget: budget.clone() });
        budget.metadata();
        for entry in archive.entries().map_err(broken)? {
            budget.data();
            let mut entry = entry.map_err(|error| invalid(&self.request.path, format!("got no whole tar: {error}")))?;
            self.place(&mut entry)?;
            budget.metadata();
        }
        // What follows the archive's end is padding.
        budget.data();
        io::copy(&mut Receiver(queue), &mut io::sink())
            .map_err(|error| invalid(&self.request.path, format!("got no whole tar: {error}")))?;
        self.set_modes();
        Ok(())
    }

    fn place<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<(), RequestError> {
        let path =
            entry.path().map_err(|error| invalid(&self.request.path, format!("got a name that is none: {error}")))?;
        let path = path.into_owned();
        let shown = path.to_string_lossy().into_owned();
        let parts = beneath::parts(&path)
            .ok_or_else(|| invalid(&shown, "leads out of the tree; expected a relative path without .."))?;
        self.count(entry, &shown)?;
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let Some((name, above)) = parts.split_last() else { return self.keep_root(kind, &shown) };
        let placed = match kind {
            EntryType::Directory => self.place_folder(entry, &parts),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => self.place_file(entry, above, name),
            EntryType::Symlink | EntryType::Link => self.place_link(entry, above, name, kind),
            other => {
                return Err(invalid(&shown, format!("is of kind {other:?}; expected files, folders and links")));
            }
        };
        placed.map_err(|error| failed("write", &shown, &error))
    }

    fn keep_root(&self, kind: EntryType, shown: &str) -> Result<(), RequestError> {
        if kind.is_dir() { Ok(()) } else { Err(invalid(shown, "is the tree's root; expected a folder")) }
    }

    /// Counts before anything is written: declared sizes too.
    fn count<R: Read>(&mut self, entry: &Entry<'_, R>, shown: &str) -> Result<(), RequestError> {
        let limit = self.request.entries.unwrap_or(ENTRIES);
        if self.entries >= limit {
            return Err(invalid(shown, format!("is one entry too many; expected at most {limit}")));
        }
        let bytes = self.bytes.saturating_add(entry.size());
        if let Some(limit) = self.request.bytes.filter(|&limit| bytes > limit) {
            return Err(invalid(shown, format!("makes it {bytes} bytes; expected at most {limit}")));
        }
        self.entries += 1;
        Ok(())
    }

    fn place_folder<R: Read>(&mut self, entry: &Entry<'_, R>, parts: &[&OsStr]) -> io::Result<()> {
        self.root.reach(parts)?;
        let mode = entry.header().mode().unwrap_or(0o755) & 0o777;
        self.modes.push((parts.iter().collect(), mode));
        Ok(())
    }

    fn place_file<R: Read>(&mut self, entry: &mut Entry<'_, R>, above: &[&OsStr], name: &OsStr) -> io::Result<()> {
        let mode = entry.header().mode().unwrap_or(0o644) & 0o777;
        let modified = entry.header().mtime().unwrap_or(0);
        let folder = self.root.reach(above)?;
        let mut file = create(folder, name)?;
        self.bytes += io::copy(entry, &mut file)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        let time = Timespec { tv_sec: i64::try_from(modified).unwrap_or(0), tv_nsec: 0 };
        rustix::fs::futimens(&file, &Timestamps { last_access: time, last_modification: time })?;
        Ok(())
    }

    fn place_link<R: Read>(
        &mut self,
        entry: &Entry<'_, R>,
        above: &[&OsStr],
        name: &OsStr,
        kind: EntryType,
    ) -> io::Result<()> {
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "the link has no target");
        let target = entry.link_name()?.ok_or_else(missing)?.into_owned();
        if kind == EntryType::Symlink {
            let folder = self.root.reach(above)?;
            beneath::clear(folder, name)?;
            rustix::fs::symlinkat(&target, folder, name)?;
        } else {
            self.place_hard_link(&target, above, name)?;
        }
        // What was a folder on the way may be a link now.
        self.root.forget();
        Ok(())
    }

    fn place_hard_link(&mut self, target: &Path, above: &[&OsStr], name: &OsStr) -> io::Result<()> {
        let outside = || io::Error::new(io::ErrorKind::InvalidData, "the hard link's target is not in the tree");
        let parts = beneath::parts(target).ok_or_else(outside)?;
        let (linked, linked_above) = parts.split_last().ok_or_else(outside)?;
        let source = self.root.reach(linked_above)?.try_clone()?;
        let folder = self.root.reach(above)?;
        if rustix::fs::statat(&source, *linked, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
        {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
        beneath::clear(folder, name)?;
        rustix::fs::linkat(&source, *linked, folder, name, AtFlags::empty())?;
        Ok(())
    }

    /// Deepest first, and only of folders that are still reached without a link out of the tree.
    fn set_modes(&mut self) {
        self.root.forget();
        for (path, mode) in std::mem::take(&mut self.modes).into_iter().rev() {
            let parts: Vec<&OsStr> = path.iter().collect();
            let Ok(folder) = self.root.reach(&parts) else { continue };
            // A path descriptor has no fchmod of its own.
            let own =
                rustix::fs::openat(folder, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            let _ = own.and_then(|own| rustix::fs::fchmod(own.as_fd(), Mode::from_raw_mode(mode)));
        }
    }
}

/// A new file at a name, in place of whatever stood there, unless it is a folder.
fn create(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    beneath::clear(folder, name)?;
    Ok(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?.into())
}
