//! What a process answers to requests that are no batch's: its known members.

use crate::values::fault::{Fault, excerpt};
use crate::values::items;
use crate::values::reply::{self, Member};

/// One scanned line.
#[derive(Debug, Default)]
pub(super) struct Answer<'a> {
    pub(super) id: Option<u64>,
    pub(super) ok: bool,
    pub(super) pid: Option<i32>,
    pub(super) index: Option<u64>,
    pub(super) state: Option<Member<'a>>,
    pub(super) states: Option<Member<'a>>,
    pub(super) reseeded: Option<Member<'a>>,
    pub(super) error: Option<Member<'a>>,
    pub(super) errors: Option<Member<'a>>,
    /// Bytes that follow the line.
    pub(super) raw_bytes: usize,
}

/// Scans one line without its newline.
pub(super) fn scan(line: &[u8]) -> Result<Answer<'_>, Fault> {
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(Fault::new(format!("a line that is no JSON object: '{}'", excerpt(line))));
    }
    let mut answer = Answer::default();
    let mut raw = None;
    items::members(line, |key, (place, found)| {
        let text = &line[place];
        let member = Some(Member { text, found }).filter(|_| text != b"null");
        match key {
            b"id" => answer.id = reply::integer(text),
            b"ok" => answer.ok = text == b"true",
            b"pid" => answer.pid = reply::integer(text).and_then(|pid| i32::try_from(pid).ok()),
            b"index" => answer.index = reply::integer(text),
            // A state may be null itself.
            b"state" => answer.state = Some(Member { text, found }),
            b"states" => answer.states = member,
            b"reseeded" => answer.reseeded = member,
            b"error" => answer.error = member,
            b"errors" => answer.errors = member,
            b"raw" => raw = Some(text),
            _ => {}
        }
    })?;
    if let Some(text) = raw {
        let bytes = reply::integer(text).and_then(|bytes| usize::try_from(bytes).ok());
        answer.raw_bytes = bytes
            .ok_or_else(|| Fault::new(format!("received \"raw\":{}, expected a number of bytes", excerpt(text))))?;
    }
    Ok(answer)
}

/// What was reseeded: a list of names.
pub(super) fn names(text: &[u8]) -> Result<Vec<String>, Fault> {
    const LIMIT_BYTES: usize = 4096;
    let parsed = (text.len() <= LIMIT_BYTES).then(|| serde_json::from_slice(text).ok()).flatten();
    parsed.ok_or_else(|| Fault::new(format!("received \"reseeded\":{}, expected a short list of names", excerpt(text))))
}
