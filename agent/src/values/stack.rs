//! Observations stacked over rows: as one block for each field of the layout, or taken apart again.

use super::array::Array;
use super::elements::{Element, cast};
use super::fault::{Fault, excerpt};
use super::fit::{members_of_dict, misfit, nested, open_tuple};
use super::layout::{Field, Tree};
use super::rewrite::{Arrays, rewrite};
use super::scan::Scanner;
use std::borrow::Cow;

/// Reads a scanned stacked observation of `count` rows: the bytes of each field for all rows, in field order. Raw
/// bytes that need no cast are borrowed, so that they are copied only once, into their column.
pub fn blocks<'r>(
    fields: &[Field],
    tree: &Tree,
    count: usize,
    text: &[u8],
    raw: &'r [u8],
) -> Result<Vec<Cow<'r, [u8]>>, Fault> {
    let mut scanner = Scanner::new(text);
    scanner.skip_space();
    let mut blocks = vec![Cow::Borrowed(&raw[..0]); fields.len()];
    node(fields, tree, count, &mut scanner, raw, &mut blocks)?;
    Ok(blocks)
}

fn node<'r>(
    fields: &[Field],
    tree: &Tree,
    count: usize,
    scanner: &mut Scanner<'_>,
    raw: &'r [u8],
    blocks: &mut [Cow<'r, [u8]>],
) -> Result<(), Fault> {
    match tree {
        Tree::Field(number) => blocks[*number] = block(&fields[*number], count, scanner, raw)?,
        Tree::Dict(members) => {
            members_of_dict(scanner, members, |scanner, member| node(fields, member, count, scanner, raw, blocks))?
        }
        Tree::Tuple(members) => {
            if !open_tuple(scanner)? {
                return Err(misfit(scanner, "a $tuple of stacked members"));
            }
            for (position, member) in members.iter().enumerate() {
                node(fields, member, count, scanner, raw, blocks)?;
                if scanner.closes(b']')? != (position + 1 == members.len()) {
                    return Err(misfit(scanner, &format!("a tuple of {} members", members.len())));
                }
            }
            scanner.skip_space();
            scanner.expect(b'}')?;
        }
    }
    Ok(())
}

fn block<'r>(field: &Field, count: usize, scanner: &mut Scanner<'_>, raw: &'r [u8]) -> Result<Cow<'r, [u8]>, Fault> {
    let start = scanner.at;
    if scanner.peek() != b'{' {
        let mut shape = vec![count];
        shape.extend_from_slice(&field.shape);
        let mut bytes = Vec::new();
        return match nested(field.dtype, &shape, scanner, &mut bytes) {
            Ok(()) => Ok(Cow::Owned(bytes)),
            Err(fault) => {
                let received = excerpt(&scanner.text[start..]);
                let dtype = field.dtype.code();
                Err(Fault::new(format!("{fault}; received '{received}', expected shape {shape:?} of {dtype}")))
            }
        };
    }
    scanner.at += 1;
    scanner.skip_space();
    if scanner.key()? != b"$nd" {
        return Err(misfit(scanner, "an array stacked over the rows"));
    }
    let array = Array::parse(scanner)?;
    scanner.skip_space();
    scanner.expect(b'}')?;
    if array.shape().split_first() != Some((&count, field.shape.as_slice())) {
        let (shape, inner) = (array.shape(), &field.shape);
        return Err(Fault::new(format!("observations of the shape {shape:?}, expected {count} of {inner:?}, stacked")));
    }
    if array.dtype == field.dtype {
        return array.bytes(raw);
    }
    if !array.dtype.casts_to(field.dtype) {
        return Err(Fault::new(format!(
            "observations of the dtype {}, which does not cast to {} (same_kind)",
            array.dtype.code(),
            field.dtype.code()
        )));
    }
    Ok(Cow::Owned(cast(&array.bytes(raw)?, array.dtype, field.dtype)))
}

/// Appends row `row` of a scanned stacked value of `count` rows as a value of its own, arrays in base64. True when it
/// holds arrays.
pub fn unstack(text: &[u8], raw: &[u8], count: usize, row: usize, out: &mut Vec<u8>) -> Result<bool, Fault> {
    let mut scanner = Scanner::new(text);
    scanner.skip_space();
    let mut part = Part { raw, count, row, out, arrays: false };
    part.value(&mut scanner)?;
    Ok(part.arrays)
}

/// One row that is taken out of a stacked value.
struct Part<'a> {
    raw: &'a [u8],
    count: usize,
    row: usize,
    out: &'a mut Vec<u8>,
    arrays: bool,
}

impl Part<'_> {
    fn value(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Fault> {
        if scanner.peek() == b'[' {
            return self.list(scanner);
        }
        scanner.expect(b'{').map_err(|_| misfit(scanner, "observations stacked over the rows"))?;
        scanner.skip_space();
        self.out.push(b'{');
        let mut closed = scanner.peek() == b'}';
        let mut first = true;
        while !closed {
            let key = scanner.key()?;
            if key == b"$nd" {
                self.out.pop();
                self.array(&Array::parse(scanner)?)?;
                scanner.skip_space();
                return scanner.expect(b'}');
            }
            self.out.extend_from_slice(if first { b"\"" } else { b",\"" });
            self.out.extend_from_slice(key);
            self.out.extend_from_slice(b"\":");
            if key == b"$tuple" {
                self.tuple(scanner)?;
            } else if key.starts_with(b"$") && !key.starts_with(b"$$") {
                return Err(misfit(scanner, "arrays, dicts and tuples stacked over the rows"));
            } else {
                self.value(scanner)?;
            }
            first = false;
            closed = scanner.closes(b'}')?;
        }
        if first {
            scanner.at += 1;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn tuple(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Fault> {
        scanner.expect(b'[')?;
        scanner.skip_space();
        self.out.push(b'[');
        let mut closed = scanner.peek() == b']';
        if closed {
            scanner.at += 1;
        }
        while !closed {
            self.value(scanner)?;
            closed = scanner.closes(b']')?;
            if !closed {
                self.out.push(b',');
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn list(&mut self, scanner: &mut Scanner<'_>) -> Result<(), Fault> {
        let start = scanner.at;
        scanner.value(1)?;
        let text = &scanner.text[start..scanner.at];
        let places = super::packed::list(text, self.count, "obs")?;
        let item = super::packed::item(&text[places[self.row].clone()])?;
        self.arrays |= item.found.arrays;
        rewrite(item.text, self.raw, Arrays::Tagged, self.out)
    }

    fn array(&mut self, array: &Array<'_>) -> Result<(), Fault> {
        let Some((&length, shape)) = array.shape().split_first().filter(|(length, _)| **length == self.count) else {
            let shape = array.shape();
            return Err(Fault::new(format!("an array of the shape {shape:?}, expected {} rows, stacked", self.count)));
        };
        let bytes = array.bytes(self.raw)?;
        let row_bytes = bytes.len() / length.max(1);
        let bytes = &bytes[self.row * row_bytes..(self.row + 1) * row_bytes];
        if shape.is_empty() && array.dtype.is_numeric() {
            // A number of one row is a plain one, as a process of one row says it.
            Element::read(array.dtype, bytes).write_json(self.out);
            return Ok(());
        }
        self.arrays = true;
        array.write_part(shape, bytes, self.out);
        Ok(())
    }
}
