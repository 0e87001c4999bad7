//! `file.stat`, `file.list`

use super::entry::describe;
use super::errors::{failed, invalid};
use crate::channel::error::RequestError;
use crate::machine::run::{Answered, Machine, Ticket};
use crate::machine::work::Order;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// Most entries of a reply.
const ENTRIES: usize = 10_000;
/// Names may be long; a head is 16 MiB at most.
const REPLY_BYTES: usize = 12 << 20;
const DEEPEST: u32 = 64;

/// The head of `file.stat`.
#[derive(Debug, Deserialize)]
pub struct StatRequest {
    path: String,
    #[serde(default)]
    user: Option<String>,
    #[serde(default = "yes")]
    follow: bool,
}

/// The head of `file.list`.
#[derive(Debug, Deserialize)]
pub struct ListRequest {
    path: String,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    follow: bool,
    #[serde(default = "one")]
    depth: u32,
    #[serde(default)]
    after: Option<String>,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

impl Machine {
    /// `{"entry"}`
    pub(in crate::machine) fn file_stat(
        &mut self,
        ticket: Ticket,
        request: StatRequest,
    ) -> Result<Answered, RequestError> {
        self.check_paths(&[&request.path])?;
        let user = request.user.clone();
        self.work(ticket, user.as_deref(), Order::default(), move || {
            let path = Path::new(&request.path);
            let metadata = look(path, request.follow).map_err(|error| failed("stat", &request.path, &error))?;
            Ok(json!({"entry": describe(path, &metadata)}))
        })
    }

    /// `{"entries","more"}`: sorted by path; `after` is the path of the last entry of the reply before.
    pub(in crate::machine) fn file_list(
        &mut self,
        ticket: Ticket,
        request: ListRequest,
    ) -> Result<Answered, RequestError> {
        self.check_paths(&[&request.path])?;
        if request.depth == 0 || request.depth > DEEPEST {
            return Err(invalid(&request.path, format!("with depth {}; expected 1 to {DEEPEST}", request.depth)));
        }
        let user = request.user.clone();
        self.work(ticket, user.as_deref(), Order::default(), move || list(&request))
    }
}

fn look(path: &Path, follow: bool) -> io::Result<Metadata> {
    if follow { fs::metadata(path) } else { fs::symlink_metadata(path) }
}

fn list(request: &ListRequest) -> Result<Value, RequestError> {
    let root = Path::new(&request.path);
    let mut found = Found { after: request.after.as_deref().map(PathBuf::from), paths: BTreeSet::new(), more: false };
    found.walk(root, request.depth).map_err(|error| failed("list", &request.path, &error))?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for path in found.paths {
        // What went away meanwhile is no entry; a dangling link is one itself.
        let Ok(metadata) = look(&path, request.follow).or_else(|_| look(&path, false)) else { continue };
        let entry = describe(&path, &metadata);
        bytes += entry.to_string().len() + 1;
        if bytes > REPLY_BYTES {
            found.more = true;
            break;
        }
        entries.push(entry);
    }
    Ok(json!({"entries": entries, "more": found.more}))
}

/// The first entries behind `after`; never more than a reply holds, however large the folder.
struct Found {
    after: Option<PathBuf>,
    paths: BTreeSet<PathBuf>,
    more: bool,
}

impl Found {
    fn walk(&mut self, folder: &Path, depth: u32) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let inside = depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir());
            if self.after.as_ref().is_none_or(|after| path > *after) {
                self.paths.insert(path.clone());
            }
            if inside {
                // A folder that may not be entered, or that has gone, has no entries to tell.
                let _ = self.walk(&path, depth - 1);
            }
            while self.paths.len() > ENTRIES {
                self.paths.pop_last();
                self.more = true;
            }
        }
        Ok(())
    }
}
