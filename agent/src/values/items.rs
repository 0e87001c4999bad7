//! Finds members and list items of a client's JSON as raw text, so that `1.0` stays `1.0`.

use super::fault::Fault;
use super::scan::{Found, Scanner};
use std::ops::Range;

/// Where a member's value stands in the text, and what it holds.
pub type Span = (Range<usize>, Found);

/// Calls back with every member of an object: its key as written and where its value stands.
pub fn members(text: &[u8], mut each: impl FnMut(&[u8], Span)) -> Result<(), Fault> {
    let mut scanner = Scanner::new(text);
    scanner.skip_space();
    scanner.expect(b'{')?;
    scanner.skip_space();
    if scanner.peek() != b'}' {
        loop {
            let key = scanner.key()?;
            let start = scanner.at;
            scanner.found = Found::default();
            scanner.value(2)?;
            each(key, (start..scanner.at, scanner.found));
            if scanner.closes(b'}')? {
                return scanner.end();
            }
        }
    }
    scanner.at += 1;
    scanner.end()
}

/// The one member of that name, if it is there and not null.
pub fn member(text: &[u8], name: &[u8]) -> Result<Option<Range<usize>>, Fault> {
    let mut place = None;
    members(text, |key, (range, _)| {
        if key == name {
            place = Some(range);
        }
    })?;
    Ok(place.filter(|range| &text[range.clone()] != b"null"))
}

/// True when the value at that place is a list.
pub fn is_list(text: &[u8], place: &Range<usize>) -> bool {
    text[place.start] == b'['
}

/// Appends where each item of the list at `place` stands; the text was scanned before.
pub fn items(text: &[u8], place: &Range<usize>, out: &mut Vec<Range<usize>>) -> Result<(), Fault> {
    let mut scanner = Scanner::new(&text[..place.end]);
    scanner.at = place.start;
    scanner.expect(b'[')?;
    scanner.skip_space();
    if scanner.peek() == b']' {
        return Ok(());
    }
    loop {
        let start = scanner.at;
        scanner.value(2)?;
        out.push(start..scanner.at);
        if scanner.closes(b']')? {
            return Ok(());
        }
    }
}

/// Appends a client's value for a line of its own: line ends between tokens become spaces.
pub fn append_line_safe(out: &mut Vec<u8>, text: &[u8]) {
    let start = out.len();
    out.extend_from_slice(text);
    if text.contains(&b'\n') || text.contains(&b'\r') {
        for byte in &mut out[start..] {
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}
