//! Fits an observation into the pool's fixed arrays.

use super::array::Array;
use super::dtype::Dtype;
use super::elements::{self, Element, cast};
use super::fault::{Fault, excerpt};
use super::layout::{Field, Tree};
use super::numbers;
use super::scan::Scanner;
use super::strings;

/// Reads a scanned observation as one row of the fields; `row` gets their bytes, one field after another in field
/// order, and is a scratch buffer that may be used again.
pub fn fit(fields: &[Field], tree: &Tree, text: &[u8], raw: &[u8], row: &mut Vec<u8>) -> Result<(), Fault> {
    row.clear();
    let mut scanner = Scanner::new(text);
    scanner.skip_space();
    if let Tree::Field(_) = tree {
        return field(&fields[0], &mut scanner, raw, row);
    }
    row.resize(fields.iter().map(|field| field.bytes).sum(), 0);
    let mut scratch = Vec::new();
    node(fields, tree, &mut scanner, raw, row, &mut scratch)
}

fn node(
    fields: &[Field],
    tree: &Tree,
    scanner: &mut Scanner<'_>,
    raw: &[u8],
    row: &mut [u8],
    scratch: &mut Vec<u8>,
) -> Result<(), Fault> {
    match tree {
        Tree::Field(number) => {
            scratch.clear();
            field(&fields[*number], scanner, raw, scratch)?;
            let start: usize = fields[..*number].iter().map(|field| field.bytes).sum();
            row[start..start + scratch.len()].copy_from_slice(scratch);
            Ok(())
        }
        Tree::Dict(members) => dict(fields, members, scanner, raw, row, scratch),
        Tree::Tuple(members) => tuple(fields, members, scanner, raw, row, scratch),
    }
}

fn dict(
    fields: &[Field],
    members: &[(String, Tree)],
    scanner: &mut Scanner<'_>,
    raw: &[u8],
    row: &mut [u8],
    scratch: &mut Vec<u8>,
) -> Result<(), Fault> {
    members_of_dict(scanner, members, |scanner, member| node(fields, member, scanner, raw, row, scratch))
}

/// Takes an object with exactly the keys of a Dict space; calls back at the value of each.
pub(super) fn members_of_dict<'a>(
    scanner: &mut Scanner<'a>,
    members: &[(String, Tree)],
    mut each: impl FnMut(&mut Scanner<'a>, &Tree) -> Result<(), Fault>,
) -> Result<(), Fault> {
    scanner.expect(b'{').map_err(|_| misfit(scanner, "an object with the keys of its Dict space"))?;
    scanner.skip_space();
    let mut seen = vec![false; members.len()];
    let mut closed = scanner.peek() == b'}';
    if closed {
        scanner.at += 1;
    }
    while !closed {
        let key = plain_key(scanner.key()?);
        let Some(position) = members.iter().position(|(name, _)| *name == key) else {
            return Err(Fault::new(format!("an observation with the key {key:?}, which its Dict space lacks")));
        };
        each(scanner, &members[position].1)?;
        seen[position] = true;
        closed = scanner.closes(b'}')?;
    }
    match seen.iter().position(|seen| !seen) {
        Some(missing) => {
            Err(Fault::new(format!("an observation without the key {:?} of its Dict space", members[missing].0)))
        }
        None => Ok(()),
    }
}

/// A key as its owner knows it: a doubled `$` is a plain one.
fn plain_key(written: &[u8]) -> String {
    let key = strings::unescape(written);
    match key.strip_prefix("$$") {
        Some(rest) => format!("${rest}"),
        None => key,
    }
}

fn tuple(
    fields: &[Field],
    members: &[Tree],
    scanner: &mut Scanner<'_>,
    raw: &[u8],
    row: &mut [u8],
    scratch: &mut Vec<u8>,
) -> Result<(), Fault> {
    let tagged = open_tuple(scanner)?;
    for (position, member) in members.iter().enumerate() {
        node(fields, member, scanner, raw, row, scratch)?;
        if scanner.closes(b']')? != (position + 1 == members.len()) {
            return Err(misfit(scanner, &format!("a tuple of {} members", members.len())));
        }
    }
    if members.is_empty() {
        scanner.expect(b']')?;
    }
    if tagged {
        scanner.skip_space();
        scanner.expect(b'}')?;
    }
    Ok(())
}

/// Takes the opening of a tuple: true for `{"$tuple":[`, false for a plain list.
pub(super) fn open_tuple(scanner: &mut Scanner<'_>) -> Result<bool, Fault> {
    let tagged = scanner.peek() == b'{';
    if tagged {
        scanner.at += 1;
        scanner.skip_space();
        if scanner.key()? != b"$tuple" {
            return Err(misfit(scanner, "a tuple"));
        }
    }
    scanner.expect(b'[').map_err(|_| misfit(scanner, "a tuple"))?;
    scanner.skip_space();
    Ok(tagged)
}

fn field(field: &Field, scanner: &mut Scanner<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    if scanner.peek() == b'{' {
        let start = scanner.at;
        scanner.at += 1;
        scanner.skip_space();
        if scanner.key()? == b"$nd" {
            let array = Array::parse(scanner)?;
            scanner.skip_space();
            scanner.expect(b'}')?;
            return typed(field, &array, raw, out);
        }
        scanner.at = start;
    }
    let start = scanner.at;
    nested(field.dtype, &field.shape, scanner, out).map_err(|fault| unshaped(field, &scanner.text[start..], &fault))
}

#[cold]
fn unshaped(field: &Field, received: &[u8], fault: &Fault) -> Fault {
    let (shape, dtype, received) = (&field.shape, field.dtype.code(), excerpt(received));
    Fault::new(format!("{fault}; received '{received}', expected shape {shape:?} of {dtype}"))
}

fn typed(field: &Field, array: &Array<'_>, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
    if array.shape() != field.shape {
        return Err(Fault::new(format!("an observation of the shape {:?}, expected {:?}", array.shape(), field.shape)));
    }
    if array.dtype == field.dtype {
        return array.decode(raw, out);
    }
    if !array.dtype.casts_to(field.dtype) {
        return Err(Fault::new(format!(
            "an observation of the dtype {}, which does not cast to {} (same_kind)",
            array.dtype.code(),
            field.dtype.code()
        )));
    }
    out.extend_from_slice(&cast(&array.bytes(raw)?, array.dtype, field.dtype));
    Ok(())
}

/// Takes nested lists of exactly that shape and appends their elements.
pub(super) fn nested(dtype: Dtype, shape: &[usize], scanner: &mut Scanner<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let Some((length, inner)) = shape.split_first() else {
        return scalar(dtype, scanner, out);
    };
    scanner.expect(b'[').map_err(|_| misfit(scanner, &format!("a list of {length}")))?;
    scanner.skip_space();
    if *length == 0 {
        return scanner.expect(b']').map_err(|_| misfit(scanner, "an empty list"));
    }
    for position in 0..*length {
        nested(dtype, inner, scanner, out)?;
        if scanner.closes(b']')? != (position + 1 == *length) {
            return Err(misfit(scanner, &format!("a list of {length}")));
        }
    }
    Ok(())
}

fn scalar(dtype: Dtype, scanner: &mut Scanner<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let start = scanner.at;
    match scanner.peek() {
        b'-' | b'0'..=b'9' | b'N' | b'I' => {
            scanner.value(1)?;
            elements::parse_number(&scanner.text[start..scanner.at], dtype, out)
        }
        truth @ (b't' | b'f') => {
            scanner.value(1)?;
            Element::Bool(truth == b't').write(dtype, out);
            Ok(())
        }
        b'{' => {
            let value = tagged_float(scanner)?;
            if !Dtype::new(super::dtype::Kind::Float, 8).casts_to(dtype) {
                return Err(misfit(scanner, &format!("a number that {} holds", dtype.code())));
            }
            Element::Float(value).write(dtype, out);
            Ok(())
        }
        _ => Err(misfit(scanner, "a number")),
    }
}

/// Takes `{"$float":"nan"}`.
pub fn tagged_float(scanner: &mut Scanner<'_>) -> Result<f64, Fault> {
    scanner.expect(b'{')?;
    scanner.skip_space();
    if scanner.key()? != b"$float" {
        return Err(misfit(scanner, "a number"));
    }
    scanner.expect(b'"')?;
    let value = numbers::named(strings::skip(scanner)?);
    scanner.skip_space();
    scanner.expect(b'}')?;
    value.ok_or_else(|| misfit(scanner, "nan, inf or -inf"))
}

#[cold]
pub(super) fn misfit(scanner: &Scanner<'_>, expected: &str) -> Fault {
    let rest = &scanner.text[scanner.at.min(scanner.text.len())..];
    Fault::new(format!("an observation that does not fit: at '{}' expected {expected}", excerpt(rest)))
}
