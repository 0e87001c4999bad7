//! One pass over JSON text that proves it is harmless: UTF-8, grammar, depth, digits, surrogates, tags.
//!
//! Nothing is built. A value that passes may be spliced into a column; what else has to happen to it first (bare NaN,
//! arrays, raw bytes) is told by [`Found`].

use super::fault::{Fault, excerpt};
use super::{strings, tags};

/// Containers inside one another, the outermost counted.
pub const DEPTH_LIMIT: usize = 64;
/// Digits of an integer; Python refuses more than 4300 and doubles end at 309.
pub const DIGITS_LIMIT: usize = 400;

/// What a scanned value holds besides plain JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Bare `NaN`, `Infinity` or `-Infinity`, which JSON lacks.
    pub bare: bool,
    /// `$nd` arrays.
    pub arrays: bool,
    /// `$nd` arrays whose bytes follow the line.
    pub raw: bool,
}

impl Found {
    /// True when the text has to be rewritten before it may be spliced.
    pub fn special(self) -> bool {
        self.bare || self.arrays
    }
}

/// A place in a text, and what was found on the way to it.
pub struct Scanner<'a> {
    /// The whole text.
    pub text: &'a [u8],
    /// The next byte to look at.
    pub at: usize,
    /// What was found so far.
    pub found: Found,
}

/// Checks that the text is exactly one harmless value.
pub fn scan_value(text: &[u8]) -> Result<Found, Fault> {
    let mut scanner = Scanner::new(text);
    scanner.skip_space();
    scanner.value(1)?;
    scanner.end()?;
    Ok(scanner.found)
}

impl<'a> Scanner<'a> {
    /// A scanner at the start of a text.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, found: Found::default() }
    }

    /// The next byte, or 0 at the end (which stands nowhere in JSON).
    #[inline]
    pub fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// Skips the four kinds of white space that JSON knows.
    #[inline]
    pub fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// Takes one byte that has to come next.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.peek() != byte {
            return Err(self.unexpected(&format!("'{}'", char::from(byte))));
        }
        self.at += 1;
        Ok(())
    }

    /// The text has to end here.
    pub fn end(&mut self) -> Result<(), Fault> {
        self.skip_space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.unexpected("the end")) }
    }

    /// A fault at this place.
    #[cold]
    pub fn unexpected(&self, expected: &str) -> Fault {
        if self.at >= self.text.len() {
            return Fault::at(self.at, format!("the text ends, expected {expected}"));
        }
        Fault::at(self.at, format!("received '{}', expected {expected}", excerpt(&self.text[self.at..])))
    }

    /// Skips one value; `depth` is the number of containers it would open, itself counted.
    pub fn value(&mut self, depth: usize) -> Result<(), Fault> {
        match self.peek() {
            b'"' => {
                self.at += 1;
                strings::skip(self).map(|_| ())
            }
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            b'N' => self.bare(b"NaN"),
            b'I' => self.bare(b"Infinity"),
            _ => Err(self.unexpected("a JSON value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), Fault> {
        self.open(depth)?;
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(());
        }
        let mut first = true;
        loop {
            let key = self.key()?;
            if key.first() == Some(&b'$') && key.get(1) != Some(&b'$') {
                if !first {
                    return Err(
                        self.unexpected("a tag to be the only member of its object (double the $ of a plain key)")
                    );
                }
                tags::check(self, key, depth)?;
                self.skip_space();
                return self.expect(b'}');
            }
            first = false;
            self.value(depth + 1)?;
            if self.closes(b'}')? {
                return Ok(());
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<(), Fault> {
        self.open(depth)?;
        if self.peek() == b']' {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            if self.closes(b']')? {
                return Ok(());
            }
        }
    }

    fn open(&mut self, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_LIMIT {
            return Err(Fault::at(self.at, format!("nested deeper than {DEPTH_LIMIT}")));
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    /// After a member: true at the closing byte, false after a comma.
    #[inline]
    pub fn closes(&mut self, close: u8) -> Result<bool, Fault> {
        self.skip_space();
        let byte = self.peek();
        if byte != close && byte != b',' {
            return Err(self.unexpected(&format!("',' or '{}'", char::from(close))));
        }
        self.at += 1;
        if byte == close {
            return Ok(true);
        }
        self.skip_space();
        Ok(false)
    }

    /// A key and its colon; the place is then the value's. The key is returned as written, between its quotes.
    #[inline]
    pub fn key(&mut self) -> Result<&'a [u8], Fault> {
        self.expect(b'"')?;
        let key = strings::skip(self)?;
        if key.first() == Some(&b'\\') && strings::unescape(key).starts_with('$') {
            return Err(self.unexpected("the $ of a key to be written plainly, not escaped"));
        }
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok(key)
    }

    fn number(&mut self) -> Result<(), Fault> {
        if self.peek() == b'-' {
            self.at += 1;
            if self.peek() == b'I' {
                return self.bare(b"Infinity");
            }
        }
        let start = self.at;
        self.digits()?;
        if self.text[start] == b'0' && self.at > start + 1 {
            return Err(Fault::at(start, "a number with a leading zero"));
        }
        if self.at - start > DIGITS_LIMIT {
            return Err(Fault::at(
                start,
                format!("an integer of {} digits, at most {DIGITS_LIMIT} are allowed", self.at - start),
            ));
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    #[inline]
    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start { Err(self.unexpected("a digit")) } else { Ok(()) }
    }

    #[inline]
    fn word(&mut self, word: &[u8]) -> Result<(), Fault> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.unexpected("a JSON value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn bare(&mut self, word: &[u8]) -> Result<(), Fault> {
        self.found.bare = true;
        self.word(word)
    }
}
