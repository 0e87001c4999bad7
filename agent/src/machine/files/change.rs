//! `file.make`, `file.move`, `file.remove`

use super::errors::{failed, invalid};
use crate::channel::error::RequestError;
use crate::machine::run::{Answered, Machine, Ticket};
use crate::machine::work::Order;
use rustix::fs::{CWD, RenameFlags};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// The head of `file.make`.
#[derive(Debug, Deserialize)]
pub struct MakeRequest {
    path: String,
    #[serde(default)]
    user: Option<String>,
    /// Makes folders above it too, and takes one that is there already.
    #[serde(default)]
    parents: bool,
    #[serde(default)]
    mode: Option<u32>,
}

/// The head of `file.move`.
#[derive(Debug, Deserialize)]
pub struct MoveRequest {
    from: String,
    to: String,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    replace: bool,
}

/// The head of `file.remove`.
#[derive(Debug, Deserialize)]
pub struct RemoveRequest {
    path: String,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    recursive: bool,
}

impl Machine {
    /// Makes a folder.
    pub(in crate::machine) fn file_make(
        &mut self,
        ticket: Ticket,
        request: MakeRequest,
    ) -> Result<Answered, RequestError> {
        self.check_paths(&[&request.path])?;
        let user = request.user.clone();
        self.work(ticket, user.as_deref(), Order::default(), move || {
            let made = make(&request).map(|()| json!({}));
            made.map_err(|error| failed("make folder", &request.path, &error))
        })
    }

    /// Gives a file or folder another name.
    pub(in crate::machine) fn file_move(
        &mut self,
        ticket: Ticket,
        request: MoveRequest,
    ) -> Result<Answered, RequestError> {
        self.check_paths(&[&request.from, &request.to])?;
        let user = request.user.clone();
        self.work(ticket, user.as_deref(), Order::default(), move || rename(&request))
    }

    /// Removes a file or an empty folder; with `recursive` a whole one. Links are removed, not followed.
    pub(in crate::machine) fn file_remove(
        &mut self,
        ticket: Ticket,
        request: RemoveRequest,
    ) -> Result<Answered, RequestError> {
        self.check_paths(&[&request.path])?;
        let user = request.user.clone();
        self.work(ticket, user.as_deref(), Order::default(), move || remove(&request))
    }
}

/// A mode is the new folder's alone, and exact: those above it are made as ever.
fn make(request: &MakeRequest) -> io::Result<()> {
    let path = Path::new(&request.path);
    if let (true, Some(parent)) = (request.parents, path.parent()) {
        make_parents(parent)?;
    }
    match DirBuilder::new().mode(request.mode.unwrap_or(0o755) & 0o7777).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && request.parents && path.is_dir() => return Ok(()),
        made => made?,
    }
    let Some(mode) = request.mode else { return Ok(()) };
    fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))
}

/// Makes what is missing of a folder; a file on the way is no folder.
pub(super) fn make_parents(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::from_raw_os_error(libc::ENOTDIR),
        _ => error,
    })
}

fn rename(request: &MoveRequest) -> Result<Value, RequestError> {
    let moved = if request.replace { fs::rename(&request.from, &request.to) } else { rename_new(request) };
    moved.map(|()| json!({})).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT) => failed("move", &request.from, &error),
        Some(libc::EXDEV) => failed(format!("move {:?} to", request.from), &request.to, &error)
            .with_hint("they are on different file systems: copy it, then remove the old one"),
        _ => failed(format!("move {:?} to", request.from), &request.to, &error),
    })
}

/// Never over something that is there.
fn rename_new(request: &MoveRequest) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, &request.from, CWD, &request.to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // File systems and kernels without the flag: looked at first, which another program can come between.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => match fs::symlink_metadata(&request.to) {
            Ok(_) => Err(io::Error::from_raw_os_error(libc::EEXIST)),
            Err(_) => fs::rename(&request.from, &request.to),
        },
        Err(error) => Err(error.into()),
    }
}

fn remove(request: &RemoveRequest) -> Result<Value, RequestError> {
    let failure = |error: io::Error| failed("remove", &request.path, &error);
    if request.path.trim_matches('/').is_empty() {
        return Err(invalid(&request.path, "is the root folder, which stays"));
    }
    let metadata = fs::symlink_metadata(&request.path).map_err(failure)?;
    let removed = match (metadata.is_dir(), request.recursive) {
        (true, true) => fs::remove_dir_all(&request.path),
        (true, false) => fs::remove_dir(&request.path),
        (false, _) => fs::remove_file(&request.path),
    };
    removed.map(|()| json!({})).map_err(|error| {
        let full = error.raw_os_error() == Some(libc::ENOTEMPTY);
        let error = failure(error);
        if full { error.with_hint("the folder is not empty: remove it with recursive") } else { error }
    })
}
