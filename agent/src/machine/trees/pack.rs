//! `tree.read`

use crate::channel::error::RequestError;
use crate::machine::files::check_path;
use crate::machine::files::errors::{failed, invalid};
use crate::machine::run::{Answered, Machine, Ticket};
use crate::machine::streams::{CHUNK_BYTES, End, Outbound, Sender};
use crate::machine::work::Order;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// The head of the request.
#[derive(Debug, Deserialize)]
pub struct ReadTree {
    path: String,
    s: u64,
    #[serde(default)]
    user: Option<String>,
}

impl Machine {
    /// Sends a folder as tar, then `{"entries"}`. Links go as links; devices, FIFOs and sockets are left out.
    pub(in crate::machine) fn tree_read(
        &mut self,
        ticket: Ticket,
        request: ReadTree,
    ) -> Result<Answered, RequestError> {
        check_path(&request.path)?;
        self.credentials(request.user.as_deref())?;
        let queue = self.streams.add_outgoing(request.s, true)?;
        let user = request.user.clone();
        let order = Order { opens: None, after: Some(request.s) };
        self.work(ticket, user.as_deref(), order, move || {
            let result = read(&request, &queue);
            queue.finish(match &result {
                Ok(_) => End::Whole,
                Err(error) => End::Failed(error.code, error.message.clone()),
            });
            result
        })
    }
}

type Archive<'a> = Builder<BufWriter<Sender<'a>>>;

/// A tree on its way.
struct Packing<'a> {
    archive: Archive<'a>,
    entries: u64,
    /// First names of files that have several, by device and inode.
    names: HashMap<(u64, u64), PathBuf>,
}

fn read(request: &ReadTree, queue: &Outbound) -> Result<Value, RequestError> {
    let failure = |error: io::Error| failed("read tree", &request.path, &error);
    let root = Path::new(&request.path);
    if !fs::metadata(root).map_err(failure)?.is_dir() {
        return Err(failure(io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    let archive = Builder::new(BufWriter::with_capacity(CHUNK_BYTES, Sender(queue)));
    let mut packing = Packing { archive, entries: 0, names: HashMap::new() };
    packing.add_folder(root, Path::new(""))?;
    let writer = packing.archive.into_inner().map_err(failure)?;
    writer.into_inner().map_err(|error| failure(error.into_error()))?.flush().map_err(failure)?;
    Ok(json!({"entries": packing.entries}))
}

impl Packing<'_> {
    /// What is in a folder, sorted, so that equal trees give equal bytes.
    fn add_folder(&mut self, folder: &Path, inside: &Path) -> Result<(), RequestError> {
        let failure = |error: io::Error| failed("read", &folder.to_string_lossy(), &error);
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(failure)? {
            names.push(entry.map_err(failure)?.file_name());
        }
        names.sort();
        for name in names {
            self.add(&folder.join(&name), &inside.join(&name))?;
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, inside: &Path) -> Result<(), RequestError> {
        let shown = path.to_string_lossy();
        let failure = |error: io::Error| failed("read", &shown, &error);
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            // It went away while the folder was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failure(error)),
        };
        if metadata.is_dir() {
            self.append(inside, &metadata, EntryType::Directory, io::empty()).map_err(failure)?;
            return self.add_folder(path, inside);
        }
        if metadata.is_symlink() {
            let target = fs::read_link(path).map_err(failure)?;
            return self.append_link(inside, &metadata, EntryType::Symlink, &target).map_err(failure);
        }
        if metadata.is_file() { self.add_file(path, inside, &shown) } else { Ok(()) }
    }

    fn add_file(&mut self, path: &Path, inside: &Path, shown: &str) -> Result<(), RequestError> {
        let failure = |error: io::Error| failed("read", shown, &error);
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failure)?;
        let metadata = file.metadata().map_err(failure)?;
        if !metadata.is_file() {
            return Ok(());
        }
        let identity = (metadata.dev(), metadata.ino());
        if let Some(first) = self.names.get(&identity).cloned() {
            return self.append_link(inside, &metadata, EntryType::Link, &first).map_err(failure);
        }
        if metadata.nlink() > 1 {
            self.names.insert(identity, inside.to_owned());
        }
        let size = metadata.size();
        let mut source = Counted { reader: file.take(size), count: 0 };
        self.append(inside, &metadata, EntryType::Regular, &mut source).map_err(failure)?;
        if source.count == size {
            return Ok(());
        }
        Err(invalid(shown, format!("has shrunk while it was read: {} of {size} bytes were there", source.count)))
    }

    fn append(&mut self, inside: &Path, metadata: &Metadata, kind: EntryType, data: impl Read) -> io::Result<()> {
        self.entries += 1;
        let size = if kind == EntryType::Regular { metadata.size() } else { 0 };
        self.archive.append_data(&mut header(metadata, kind, size), inside, data)
    }

    fn append_link(&mut self, inside: &Path, metadata: &Metadata, kind: EntryType, target: &Path) -> io::Result<()> {
        self.entries += 1;
        self.archive.append_link(&mut header(metadata, kind, 0), inside, target)
    }
}

fn header(metadata: &Metadata, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(metadata.mode() & 0o7777);
    header.set_uid(metadata.uid().into());
    header.set_gid(metadata.gid().into());
    header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0));
    header
}

/// Counts what was there.
struct Counted<R> {
    reader: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.count += count as u64;
        Ok(count)
    }
}
