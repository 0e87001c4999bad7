//! `file.write`: success only once the bytes are safely there.

use super::errors::{failed, invalid};
use crate::channel::error::RequestError;
use crate::machine::run::{Answered, Machine, Ticket};
use crate::machine::streams::{CHUNK_BYTES, Inbound, Receiver};
use crate::machine::work::Order;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

const MODE: u32 = 0o644;
const LINKS: usize = 40;

/// The head of the request.
#[derive(Debug, Deserialize)]
pub struct WriteRequest {
    path: String,
    s: u64,
    #[serde(default)]
    mode: Option<u32>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default = "yes")]
    parents: bool,
}

fn yes() -> bool {
    true
}

impl Machine {
    /// `{"bytes","sha256"}` once the file has its name and all of it is on the disk.
    pub(in crate::machine) fn file_write(
        &mut self,
        ticket: Ticket,
        request: WriteRequest,
    ) -> Result<Answered, RequestError> {
        self.check_paths(&[&request.path])?;
        if let Some(mode) = request.mode.filter(|mode| mode & !0o7777 != 0) {
            return Err(invalid(&request.path, format!("with mode {mode:o}; expected at most 7777")));
        }
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

fn write(request: &WriteRequest, queue: &Inbound) -> Result<Value, RequestError> {
    let failure = |error: io::Error| failed("write", &request.path, &error);
    let target = target(&request.path).map_err(failure)?;
    let folder = target.parent().ok_or_else(|| invalid(&request.path, "is the root folder; expected a file"))?;
    if request.parents {
        super::change::make_parents(folder).map_err(failure)?;
    }
    let before = match fs::symlink_metadata(&target) {
        Ok(metadata) if metadata.is_dir() => return Err(failure(io::Error::from_raw_os_error(libc::EISDIR))),
        Ok(metadata) if !metadata.is_file() => {
            return Err(invalid(&request.path, "is no regular file; expected one or none"));
        }
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failure(error)),
    };
    let part = folder.join(format!(".sandpool-{:016x}.part", random().map_err(failure)?));
    let written = fill(&part, request, before.as_ref(), queue)
        .and_then(|done| fs::rename(&part, &target).map(|()| done).map_err(failure));
    let (bytes, sha256) = written.inspect_err(|_| drop(fs::remove_file(&part)))?;
    File::open(folder).and_then(|folder| folder.sync_all()).or_else(|error| unreadable(&error)).map_err(failure)?;
    Ok(json!({"bytes": bytes, "sha256": sha256}))
}

/// A folder that can be written but not read cannot be opened; the file in it is synced.
fn unreadable(error: &io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::PermissionDenied { Ok(()) } else { Err(io::Error::from(error.kind())) }
}

/// Fills the file beside the target; returns its bytes and their hash.
fn fill(
    part: &Path,
    request: &WriteRequest,
    before: Option<&Metadata>,
    queue: &Inbound,
) -> Result<(u64, String), RequestError> {
    let failure = |error: io::Error| failed("write", &request.path, &error);
    let flags = libc::O_NOFOLLOW | libc::O_NOCTTY;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).custom_flags(flags).open(part).map_err(failure)?;
    let (bytes, sha256) = copy(&mut file, request, queue)?;
    if let Some(before) = before {
        // Whoever may not give files away keeps them as their own.
        let _ = fchown(&file, Some(before.uid()), Some(before.gid()));
    }
    let mode = request.mode.or(before.map(|before| before.mode() & 0o7777)).unwrap_or(MODE);
    file.set_permissions(Permissions::from_mode(mode)).map_err(failure)?;
    file.sync_all().map_err(failure)?;
    Ok((bytes, sha256))
}

fn copy(file: &mut File, request: &WriteRequest, queue: &Inbound) -> Result<(u64, String), RequestError> {
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let count = Receiver(queue).read(&mut buffer).map_err(|error| {
            invalid(&request.path, format!("was not written: the stream failed after {bytes} bytes ({error})"))
        })?;
        if count == 0 {
            break;
        }
        file.write_all(&buffer[..count]).map_err(|error| failed("write", &request.path, &error))?;
        hasher.update(&buffer[..count]);
        bytes += count as u64;
    }
    if let Some(size) = request.size.filter(|&size| size != bytes) {
        return Err(invalid(&request.path, format!("was not written: {bytes} bytes came, expected {size}")));
    }
    let mut text = String::new();
    for byte in hasher.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    Ok((bytes, text))
}

/// Where the bytes go: through links, also to what is not there yet, so that a link stays one.
fn target(path: &str) -> io::Result<PathBuf> {
    let mut target = PathBuf::from(path);
    if path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..") {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    for _ in 0..LINKS {
        match fs::read_link(&target) {
            Ok(link) => target = target.parent().unwrap_or(Path::new("/")).join(link),
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: the buffer is valid for its length.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if count == 8 { Ok(u64::from_ne_bytes(bytes)) } else { Err(io::Error::last_os_error()) }
}
