//! JSON strings: skipped eight bytes at a time, read and written.

use super::fault::Fault;
use super::scan::Scanner;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Skips a string whose opening quote was taken; returns what stands between the quotes, as written.
pub fn skip<'a>(scanner: &mut Scanner<'a>) -> Result<&'a [u8], Fault> {
    let start = scanner.at;
    loop {
        skip_plain(scanner);
        match scanner.text.get(scanner.at) {
            Some(b'"') => {
                scanner.at += 1;
                return Ok(&scanner.text[start..scanner.at - 1]);
            }
            Some(b'\\') => escape(scanner)?,
            Some(0x80..) => utf8(scanner)?,
            Some(0..0x20) => return Err(scanner.unexpected("control characters in a string to be escaped")),
            Some(_) => scanner.at += 1,
            None => return Err(scanner.unexpected("the closing quote of a string")),
        }
    }
}

/// Moves over bytes that need no look: not a quote, a backslash, a control character or a part of a longer character.
#[inline]
fn skip_plain(scanner: &mut Scanner<'_>) {
    while let Some(chunk) = scanner.text[scanner.at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * u64::from(b'"'));
        let slash = word ^ (ONES * u64::from(b'\\'));
        let special = (word
            | word.wrapping_sub(ONES * 0x20)
            | (quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash))
            & HIGH;
        if special != 0 {
            scanner.at += special.trailing_zeros() as usize / 8;
            return;
        }
        scanner.at += 8;
    }
}

fn escape(scanner: &mut Scanner<'_>) -> Result<(), Fault> {
    match scanner.text.get(scanner.at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
            scanner.at += 2;
            Ok(())
        }
        Some(b'u') => {
            let first = code_unit(scanner)?;
            match first {
                0xd800..=0xdbff => {
                    if scanner.text.get(scanner.at..scanner.at + 2) != Some(b"\\u".as_slice()) {
                        return Err(scanner.unexpected("the second half of a surrogate pair"));
                    }
                    match code_unit(scanner)? {
                        0xdc00..=0xdfff => Ok(()),
                        _ => Err(scanner.unexpected("no lone surrogate before this")),
                    }
                }
                0xdc00..=0xdfff => Err(scanner.unexpected("no lone surrogate before this")),
                _ => Ok(()),
            }
        }
        _ => Err(scanner.unexpected("an escape that JSON knows")),
    }
}

fn code_unit(scanner: &mut Scanner<'_>) -> Result<u32, Fault> {
    let digits = scanner.text.get(scanner.at + 2..scanner.at + 6);
    let Some(unit) = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit)) else {
        return Err(scanner.unexpected("four hexadecimal digits after \\u"));
    };
    let unit = unit.iter().fold(0, |sum, digit| sum * 16 + char::from(*digit).to_digit(16).unwrap_or(0));
    scanner.at += 6;
    Ok(unit)
}

fn utf8(scanner: &mut Scanner<'_>) -> Result<(), Fault> {
    let rest = &scanner.text[scanner.at..];
    let length = match rest[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 0,
    };
    match rest.get(..length).filter(|_| length > 0).map(std::str::from_utf8) {
        Some(Ok(_)) => {
            scanner.at += length;
            Ok(())
        }
        _ => Err(scanner.unexpected("UTF-8")),
    }
}

/// The text of a string that was skipped before, its escapes resolved.
pub fn unescape(written: &[u8]) -> String {
    if !written.contains(&b'\\') {
        return String::from_utf8_lossy(written).into_owned();
    }
    let mut quoted = Vec::with_capacity(written.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(written);
    quoted.push(b'"');
    serde_json::from_slice(&quoted).unwrap_or_default()
}

/// Appends a JSON string.
pub fn write(out: &mut Vec<u8>, text: &str) {
    // Writing to memory cannot fail, and neither can a string.
    let _ = serde_json::to_writer(&mut *out, text);
}
