//! An environment's answer, its known members found in one pass.

use super::array::{Array, unsigned};
use super::elements::Element;
use super::fault::{Fault, excerpt};
use super::fit::tagged_float;
use super::numbers;
use super::scan::{Found, Scanner};

/// A member's value as written, and what it holds besides plain JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// The value.
    pub text: &'a [u8],
    /// What the scan saw in it.
    pub found: Found,
}

/// The known members of one answer; all of the line was checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The answer's number, if it is one.
    pub id: Option<u64>,
    /// `obs`
    pub obs: Option<Member<'a>>,
    /// `reward`
    pub reward: Option<Member<'a>>,
    /// `terminated`
    pub terminated: Option<bool>,
    /// `truncated`
    pub truncated: Option<bool>,
    /// `done` of the old interface
    pub done: Option<bool>,
    /// `info`
    pub info: Option<Member<'a>>,
    /// `result`
    pub result: Option<Member<'a>>,
    /// `error`
    pub error: Option<Member<'a>>,
    /// Bytes that follow the line.
    pub raw_bytes: usize,
}

/// Scans one line without its newline.
pub fn scan(line: &[u8]) -> Result<Reply<'_>, Fault> {
    let mut scanner = Scanner::new(line);
    let mut reply = Reply::default();
    scanner.skip_space();
    scanner.expect(b'{').map_err(|_| Fault::new(format!("a line that is no JSON object: '{}'", excerpt(line))))?;
    scanner.skip_space();
    if scanner.peek() == b'}' {
        scanner.at += 1;
    } else {
        loop {
            member(&mut scanner, &mut reply)?;
            if scanner.closes(b'}')? {
                break;
            }
        }
    }
    scanner.end()?;
    Ok(reply)
}

#[inline]
fn member<'a>(scanner: &mut Scanner<'a>, reply: &mut Reply<'a>) -> Result<(), Fault> {
    let key = scanner.key()?;
    let start = scanner.at;
    scanner.found = Found::default();
    scanner.value(2)?;
    let text = &scanner.text[start..scanner.at];
    let member = Member { text, found: scanner.found };
    match key {
        b"id" => reply.id = integer(text),
        b"obs" => reply.obs = Some(member),
        b"reward" => reply.reward = Some(member),
        b"terminated" => reply.terminated = truth(key, text)?,
        b"truncated" => reply.truncated = truth(key, text)?,
        b"done" => reply.done = truth(key, text)?,
        b"info" => reply.info = Some(member).filter(|member| member.text != b"null"),
        b"result" => reply.result = Some(member),
        b"error" => reply.error = Some(member).filter(|member| member.text != b"null"),
        b"raw" => {
            let Some(bytes) = integer(text) else {
                return Err(Fault::new(format!("received \"raw\":{}, expected a number of bytes", excerpt(text))));
            };
            reply.raw_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        _ => {}
    }
    Ok(())
}

/// A plain unsigned integer of at most 18 digits.
pub fn integer(text: &[u8]) -> Option<u64> {
    let mut scanner = Scanner::new(text);
    let value = unsigned(&mut scanner).ok()?;
    (scanner.at == text.len()).then_some(value as u64)
}

fn truth(key: &[u8], text: &[u8]) -> Result<Option<bool>, Fault> {
    match text {
        b"true" => Ok(Some(true)),
        b"false" => Ok(Some(false)),
        b"null" => Ok(None),
        _ => Err(Fault::new(format!("received \"{}\":{}, expected true or false", excerpt(key), excerpt(text)))),
    }
}

/// A reward: a number, a bare or tagged non-finite one, true or false, or a numpy scalar.
pub fn reward(member: &Member<'_>, raw: &[u8]) -> Result<f64, Fault> {
    let text = member.text;
    match text.first() {
        Some(b't') => return Ok(1.0),
        Some(b'f') => return Ok(0.0),
        Some(b'{') => {}
        _ => return numbers::parse_f64(text).map_err(|_| no_reward(text)),
    }
    let mut scanner = Scanner::new(text);
    if !member.found.arrays {
        return tagged_float(&mut scanner).map_err(|_| no_reward(text));
    }
    scanner.at += 1;
    scanner.skip_space();
    if scanner.key()? != b"$nd" {
        return Err(no_reward(text));
    }
    let array = Array::parse(&mut scanner)?;
    if !array.dtype.is_numeric() || array.size_bytes != array.dtype.size {
        return Err(no_reward(text));
    }
    let mut bytes = Vec::new();
    array.decode(raw, &mut bytes)?;
    Ok(Element::read(array.dtype, &bytes).real())
}

fn no_reward(text: &[u8]) -> Fault {
    Fault::new(format!("received the reward {}, expected a number", excerpt(text)))
}
