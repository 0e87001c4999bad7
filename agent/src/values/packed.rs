//! The answer of a process with several rows: its known members found in one pass, columns instead of values.

use super::array::Array;
use super::dtype::{Dtype, Kind};
use super::elements::cast;
use super::fault::{Fault, excerpt};
use super::items::{self, Span};
use super::reply::{self, Member};
use super::scan::{Scanner, scan_value};
use std::borrow::Cow;
use std::ops::Range;

const FLOAT64: Dtype = Dtype::new(Kind::Float, 8);

/// The known members of one answer; all of the line was checked.
#[derive(Debug, Clone, Copy, Default)]
pub struct PackedReply<'a> {
    /// The answer's number, if it is one.
    pub id: Option<u64>,
    /// `obs`: stacked, or a list.
    pub obs: Option<Member<'a>>,
    /// `reward`
    pub reward: Option<Member<'a>>,
    /// `terminated`
    pub terminated: Option<Member<'a>>,
    /// `truncated`
    pub truncated: Option<Member<'a>>,
    /// `infos`: a list, or an object of those that say something.
    pub infos: Option<Member<'a>>,
    /// `results`
    pub results: Option<Member<'a>>,
    /// `errors` of single rows.
    pub errors: Option<Member<'a>>,
    /// `error` of the whole message.
    pub error: Option<Member<'a>>,
    /// `step_us` of a measurement.
    pub step_us: Option<Member<'a>>,
    /// `reason` of a measurement that came to nothing.
    pub reason: Option<Member<'a>>,
    /// Bytes that follow the line.
    pub raw_bytes: usize,
}

/// Scans one line without its newline.
pub fn scan(line: &[u8]) -> Result<PackedReply<'_>, Fault> {
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(Fault::new(format!("a line that is no JSON object: '{}'", excerpt(line))));
    }
    let mut reply = PackedReply::default();
    let mut raw = None;
    items::members(line, |key, (place, found)| {
        let text = &line[place];
        let member = Some(Member { text, found });
        let given = member.filter(|_| text != b"null");
        match key {
            b"id" => reply.id = reply::integer(text),
            b"obs" => reply.obs = member,
            b"reward" => reply.reward = member,
            b"terminated" => reply.terminated = member,
            b"truncated" => reply.truncated = given,
            b"infos" => reply.infos = given,
            b"results" => reply.results = member,
            b"errors" => reply.errors = given,
            b"error" => reply.error = given,
            b"step_us" => reply.step_us = given,
            b"reason" => reply.reason = given,
            b"raw" => raw = Some(text),
            _ => {}
        }
    })?;
    if let Some(text) = raw {
        let Some(bytes) = reply::integer(text) else {
            return Err(Fault::new(format!("received \"raw\":{}, expected a number of bytes", excerpt(text))));
        };
        reply.raw_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    Ok(reply)
}

/// The items of a list of exactly `count`.
pub fn list(text: &[u8], count: usize, name: &str) -> Result<Vec<Range<usize>>, Fault> {
    let mut places = Vec::with_capacity(count);
    if text.first() == Some(&b'[') {
        items::items(text, &(0..text.len()), &mut places)?;
    }
    if text.first() != Some(&b'[') || places.len() != count {
        return Err(Fault::new(format!(
            "received \"{name}\":'{}', expected a list of {count}, one item for each row of the request",
            excerpt(text)
        )));
    }
    Ok(places)
}

/// An item of a scanned list as a member of its own.
pub fn item(text: &[u8]) -> Result<Member<'_>, Fault> {
    Ok(Member { text, found: scan_value(text)? })
}

/// Calls back with the members of an object, each with the row's number inside its process.
pub fn by_row(text: &[u8], name: &str, mut each: impl FnMut(usize, Span)) -> Result<(), Fault> {
    let mut strange = None;
    if text.first() != Some(&b'{') {
        return Err(Fault::new(format!("received \"{name}\":'{}', expected an object by row", excerpt(text))));
    }
    items::members(text, |key, span| match reply::integer(key) {
        Some(number) => each(usize::try_from(number).unwrap_or(usize::MAX), span),
        None => strange = Some(excerpt(key)),
    })?;
    match strange {
        None => Ok(()),
        Some(key) => Err(Fault::new(format!("received the key '{key}' in \"{name}\", expected the number of a row"))),
    }
}

/// `count` rewards: an array of the shape `[count]`, or a list. `skip` names rows whose place holds anything.
pub fn rewards(
    member: &Member<'_>,
    raw: &[u8],
    count: usize,
    skip: &dyn Fn(usize) -> bool,
    out: &mut Vec<f64>,
) -> Result<(), Fault> {
    out.clear();
    if let Some(array) = flat_array(member, count, "reward")? {
        let bytes = array.bytes(raw)?;
        if !array.dtype.casts_to(FLOAT64) {
            return Err(Fault::new(format!("rewards of the dtype {}, expected <f8", array.dtype.code())));
        }
        let mut doubles = Cow::Borrowed(&*bytes);
        if array.dtype != FLOAT64 {
            doubles = Cow::Owned(cast(&bytes, array.dtype, FLOAT64));
        }
        out.extend(doubles.as_chunks::<8>().0.iter().map(|chunk| f64::from_le_bytes(*chunk)));
        return Ok(());
    }
    for (position, place) in list(member.text, count, "reward")?.into_iter().enumerate() {
        let skipped = skip(position);
        out.push(if skipped { 0.0 } else { reply::reward(&item(&member.text[place])?, raw)? });
    }
    Ok(())
}

/// `count` flags as bytes of 0 and 1: an array of `|b1`, or a list of truths.
pub fn flags(
    member: &Member<'_>,
    raw: &[u8],
    count: usize,
    name: &str,
    skip: &dyn Fn(usize) -> bool,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    out.clear();
    if let Some(array) = flat_array(member, count, name)? {
        if array.dtype.size != 1 || !array.dtype.is_numeric() {
            return Err(Fault::new(format!("\"{name}\" of the dtype {}, expected |b1", array.dtype.code())));
        }
        out.extend(array.bytes(raw)?.iter().map(|byte| u8::from(*byte != 0)));
        return Ok(());
    }
    for (position, place) in list(member.text, count, name)?.into_iter().enumerate() {
        match &member.text[place] {
            b"true" => out.push(1),
            b"false" => out.push(0),
            _ if skip(position) => out.push(0),
            other => {
                let received = excerpt(other);
                return Err(Fault::new(format!("received '{received}' in \"{name}\", expected true or false")));
            }
        }
    }
    Ok(())
}

/// The member as an array of the shape `[count]`; none if it is no array at all.
fn flat_array<'a>(member: &Member<'a>, count: usize, name: &str) -> Result<Option<Array<'a>>, Fault> {
    if member.text.first() != Some(&b'{') {
        return Ok(None);
    }
    let mut scanner = Scanner::new(member.text);
    scanner.at += 1;
    scanner.skip_space();
    if scanner.peek() == b'}' || scanner.key()? != b"$nd" {
        return Ok(None);
    }
    let array = Array::parse(&mut scanner)?;
    if array.shape() != [count] {
        let shape = array.shape();
        return Err(Fault::new(format!("\"{name}\" of the shape {shape:?}, expected [{count}], one for each row")));
    }
    Ok(Some(array))
}
