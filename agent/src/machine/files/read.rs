//! `file.read`

use super::entry::describe;
use super::errors::{failed, invalid};
use crate::channel::error::RequestError;
use crate::machine::mailbox::{Mailbox, Post};
use crate::machine::run::{Answered, Machine, Ticket};
use crate::machine::streams::{CHUNK_BYTES, End, Outbound};
use crate::machine::work::Order;
use serde::Deserialize;
use serde_json::json;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// Files that the kernel makes up have no size; more than this is no file but a flood.
const SIZELESS_LIMIT_BYTES: u64 = 64 << 20;

/// The head of the request.
#[derive(Debug, Deserialize)]
pub struct ReadRequest {
    path: String,
    s: u64,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    length: Option<u64>,
    #[serde(default)]
    user: Option<String>,
}

impl Machine {
    /// `{"stat"}`, then the bytes. Only regular files: anything else is refused before it is opened.
    pub(in crate::machine) fn file_read(
        &mut self,
        ticket: Ticket,
        request: ReadRequest,
    ) -> Result<Answered, RequestError> {
        self.check_paths(&[&request.path])?;
        let queue = self.streams.add_outgoing(request.s, false)?;
        let (mailbox, stream) = (self.mailbox.clone(), request.s);
        let user = request.user.clone();
        let order = Order { opens: Some(stream), after: None };
        let asked = self.work_quietly(ticket, user.as_deref(), order, move || {
            let (file, metadata) = open(&request.path)?;
            let stat = describe(Path::new(&request.path), &metadata);
            tell(&mailbox, ticket, stream, json!({"stat": stat}));
            let end = match send(file, &metadata, &request, &queue) {
                Ok(()) => End::Whole,
                Err(error) => End::Failed(error.code, error.message),
            };
            queue.finish(end);
            Ok(())
        });
        if asked.is_err() {
            self.streams.discard(stream);
        }
        asked
    }
}

fn tell(mailbox: &Arc<Mailbox>, ticket: Ticket, stream: u64, head: serde_json::Value) {
    mailbox.post(Post { ticket, result: Ok(head), opens: Some(stream), after: None, worked: false });
}

/// Opens a regular file. The kind is asked before, as opening a device can do things, and after, as the path may have
/// changed meanwhile.
fn open(path: &str) -> Result<(File, Metadata), RequestError> {
    let check = |metadata: &Metadata| {
        if metadata.is_dir() {
            return Err(failed("read", path, &io::Error::from_raw_os_error(libc::EISDIR)));
        }
        if metadata.is_file() { Ok(()) } else { Err(invalid(path, "is no regular file; expected one")) }
    };
    let failure = |error: io::Error| failed("read", path, &error);
    check(&fs::metadata(path).map_err(failure)?)?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failure)?;
    let metadata = file.metadata().map_err(failure)?;
    check(&metadata)?;
    Ok((file, metadata))
}

/// Sends what the file had when it was opened: one that grows is no endless stream, one that shrinks is an error.
fn send(mut file: File, metadata: &Metadata, request: &ReadRequest, queue: &Outbound) -> Result<(), RequestError> {
    let failure = |error: io::Error| failed("read", &request.path, &error);
    file.seek(SeekFrom::Start(request.offset)).map_err(failure)?;
    let sized = metadata.len() > 0;
    let there = if sized { metadata.len().saturating_sub(request.offset) } else { SIZELESS_LIMIT_BYTES };
    let mut left = request.length.unwrap_or(u64::MAX).min(there);
    let mut buffer = vec![0; CHUNK_BYTES];
    while left > 0 {
        let limit = left.min(CHUNK_BYTES as u64) as usize;
        let count = match file.read(&mut buffer[..limit]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other.map_err(failure)?,
        };
        if count == 0 && sized {
            return Err(invalid(&request.path, format!("has shrunk while it was read: {left} bytes are missing")));
        }
        if count == 0 {
            return Ok(());
        }
        queue.send(&buffer[..count]).map_err(failure)?;
        left -= count as u64;
    }
    if !sized && request.length.is_none() {
        return Err(invalid(&request.path, "has no size and no end; expected at most 64 MiB, or a length"));
    }
    Ok(())
}
