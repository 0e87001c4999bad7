//! Numpy's element types, little-endian.

use super::fault::{Fault, excerpt};

/// The kind of an element, in numpy's order: a cast to a later numeric kind is `same_kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `b1`
    Bool,
    /// `u1` to `u8`
    Unsigned,
    /// `i1` to `i8`
    Signed,
    /// `f2`, `f4`, `f8`
    Float,
    /// `c8`, `c16`
    Complex,
    /// `U…`: UTF-32
    Text,
    /// Anything else numpy has: carried, never looked into.
    Opaque,
}

/// An element type: its kind and its size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dtype {
    /// The kind.
    pub kind: Kind,
    /// Bytes of one element.
    pub size: usize,
}

const NAMES: [(&str, Kind, usize); 14] = [
    ("bool", Kind::Bool, 1),
    ("uint8", Kind::Unsigned, 1),
    ("uint16", Kind::Unsigned, 2),
    ("uint32", Kind::Unsigned, 4),
    ("uint64", Kind::Unsigned, 8),
    ("int8", Kind::Signed, 1),
    ("int16", Kind::Signed, 2),
    ("int32", Kind::Signed, 4),
    ("int64", Kind::Signed, 8),
    ("float16", Kind::Float, 2),
    ("float32", Kind::Float, 4),
    ("float64", Kind::Float, 8),
    ("complex64", Kind::Complex, 8),
    ("complex128", Kind::Complex, 16),
];

impl Dtype {
    /// A numeric type by kind and size.
    pub const fn new(kind: Kind, size: usize) -> Self {
        Self { kind, size }
    }

    /// Reads `<f4`, `|u1`, `<U5`, `<M8[ns]`, or a name such as `float32`.
    pub fn parse(text: &[u8]) -> Result<Self, Fault> {
        let name = std::str::from_utf8(text).unwrap_or("");
        if let Some((_, kind, size)) = NAMES.iter().find(|(known, ..)| *known == name) {
            return Ok(Self::new(*kind, *size));
        }
        Self::parse_code(name).ok_or_else(|| {
            Fault::new(format!(
                "received dtype '{}', expected a little-endian numpy dtype such as '<f4'",
                excerpt(text)
            ))
        })
    }

    fn parse_code(name: &str) -> Option<Self> {
        let code = name.strip_prefix(['<', '|', '=']).unwrap_or(name);
        if !code.is_ascii() || code.len() < 2 {
            return None;
        }
        let (letter, rest) = code.split_at(1);
        let digits = rest.split_once('[').map_or(rest, |(digits, _)| digits);
        let number: usize = digits.parse().ok().filter(|number| *number <= 1 << 24)?;
        let plain = digits.len() == rest.len();
        match (letter, number) {
            ("b", 1) if plain => Some(Self::new(Kind::Bool, 1)),
            ("u", 1 | 2 | 4 | 8) if plain => Some(Self::new(Kind::Unsigned, number)),
            ("i", 1 | 2 | 4 | 8) if plain => Some(Self::new(Kind::Signed, number)),
            ("f", 2 | 4 | 8) if plain => Some(Self::new(Kind::Float, number)),
            ("c", 8 | 16) if plain => Some(Self::new(Kind::Complex, number)),
            ("U", _) if plain => Some(Self::new(Kind::Text, number * 4)),
            ("f", 12 | 16) | ("c", 24 | 32) | ("S" | "V", _) if plain => Some(Self::new(Kind::Opaque, number)),
            ("M" | "m", 8) => Some(Self::new(Kind::Opaque, 8)),
            _ => None,
        }
    }

    /// True for what an observation column can hold.
    pub fn is_numeric(self) -> bool {
        self.kind <= Kind::Complex
    }

    /// Numpy's `can_cast(self, target, "same_kind")` for numeric types.
    pub fn casts_to(self, target: Self) -> bool {
        self.is_numeric() && target.is_numeric() && self.kind <= target.kind
    }

    /// Numpy's short name, such as `<f4` or `|u1`.
    pub fn code(self) -> String {
        let letter = match self.kind {
            Kind::Bool => 'b',
            Kind::Unsigned => 'u',
            Kind::Signed => 'i',
            Kind::Float => 'f',
            Kind::Complex => 'c',
            Kind::Text => return format!("<U{}", self.size / 4),
            Kind::Opaque => return format!("|V{}", self.size),
        };
        format!("{}{letter}{}", if self.size == 1 { '|' } else { '<' }, self.size)
    }
}
