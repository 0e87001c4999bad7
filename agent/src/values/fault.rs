//! What is wrong with a text from an environment or a client, in words.

use std::fmt;

/// A text that breaks the protocol: what was received, what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(pub String);

impl Fault {
    /// A fault at a byte offset of the text.
    pub fn at(offset: usize, what: impl fmt::Display) -> Self {
        Self(format!("byte {offset}: {what}"))
    }

    /// A fault that has no single place.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The first bytes of a text as they may stand in a message: printable ASCII, everything else escaped.
pub fn excerpt(text: &[u8]) -> String {
    const LIMIT_BYTES: usize = 80;
    let shown = &text[..text.len().min(LIMIT_BYTES)];
    let mut escaped = String::with_capacity(shown.len() + 8);
    for byte in shown {
        escaped.extend(std::ascii::escape_default(*byte).map(char::from));
    }
    if text.len() > LIMIT_BYTES {
        escaped.push_str(&format!("… ({} bytes)", text.len()));
    }
    escaped
}
