//! Rewrites scanned JSON text: bare NaN becomes a tag, arrays become base64 or nested lists.

use super::array::Array;
use super::fault::Fault;
use super::scan::Scanner;
use super::{lists, numbers, strings};

/// What becomes of arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrays {
    /// `$nd` with base64, the form that is kept and that binary clients get.
    Tagged,
    /// Nested lists, for clients that asked for JSON.
    Lists,
}

/// Appends a text that was scanned before, rewritten. `raw` are the bytes that followed its line.
pub fn rewrite(text: &[u8], raw: &[u8], arrays: Arrays, out: &mut Vec<u8>) -> Result<(), Fault> {
    let mut scanner = Scanner::new(text);
    let mut copied = 0;
    let mut bytes = Vec::new();
    while scanner.at < text.len() {
        let start = scanner.at;
        match text[start] {
            b'"' => {
                scanner.at += 1;
                strings::skip(&mut scanner)?;
            }
            b'{' => {
                scanner.at += 1;
                let Some(array) = array_inside(&mut scanner)? else {
                    continue;
                };
                out.extend_from_slice(&text[copied..start]);
                bytes.clear();
                array.decode(raw, &mut bytes)?;
                match arrays {
                    Arrays::Lists if lists::can_write(array.dtype) => {
                        lists::write(array.dtype, array.shape(), &bytes, out)
                    }
                    _ => array.write_tagged(&bytes, out),
                }
                copied = scanner.at;
            }
            b'N' | b'I' => {
                let negative = start > copied && text[start - 1] == b'-';
                out.extend_from_slice(&text[copied..start - usize::from(negative)]);
                let not_a_number = text[start] == b'N';
                scanner.at += if not_a_number { 3 } else { 8 };
                copied = scanner.at;
                out.extend_from_slice(numbers::tagged(match (not_a_number, negative) {
                    (true, _) => f64::NAN,
                    (false, true) => f64::NEG_INFINITY,
                    (false, false) => f64::INFINITY,
                }));
            }
            _ => scanner.at += 1,
        }
    }
    out.extend_from_slice(&text[copied..]);
    Ok(())
}

/// The array of an object whose brace was taken, and its closing brace; nothing is taken if it is another object.
fn array_inside<'a>(scanner: &mut Scanner<'a>) -> Result<Option<Array<'a>>, Fault> {
    let before = scanner.at;
    scanner.skip_space();
    if !scanner.text[scanner.at..].starts_with(b"\"$nd\"") {
        scanner.at = before;
        return Ok(None);
    }
    scanner.key()?;
    let array = Array::parse(scanner)?;
    scanner.skip_space();
    scanner.expect(b'}')?;
    Ok(Some(array))
}
