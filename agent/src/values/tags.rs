//! The tagged forms of what JSON lacks: `$nd`, `$tuple`, `$bytes`, `$float`, `$graph`.

use super::array::Array;
use super::fault::Fault;
use super::scan::Scanner;
use super::{numbers, strings};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Checks the value of a tag; the scanner stands at it. The base64 text of an array is only measured here: it is
/// decoded, and so checked, by whoever uses it.
pub fn check(scanner: &mut Scanner<'_>, tag: &[u8], depth: usize) -> Result<(), Fault> {
    match tag {
        b"$nd" => {
            if depth + 1 > super::scan::DEPTH_LIMIT {
                return Err(scanner.unexpected("no deeper nesting"));
            }
            let array = Array::parse(scanner)?;
            scanner.found.arrays = true;
            scanner.found.raw |= array.is_raw();
            Ok(())
        }
        b"$tuple" => opening(scanner, b'[', "a list in $tuple", depth),
        b"$graph" => opening(scanner, b'{', "an object in $graph", depth),
        b"$bytes" => {
            let text = string(scanner)?;
            let mut decoded = Vec::new();
            match STANDARD.decode_vec(text, &mut decoded) {
                Ok(()) => Ok(()),
                Err(_) => Err(scanner.unexpected("base64 in the $bytes before this")),
            }
        }
        b"$float" => match numbers::named(string(scanner)?) {
            Some(_) => Ok(()),
            None => Err(scanner.unexpected("nan, inf or -inf in the $float before this")),
        },
        _ => Err(scanner.unexpected("one of $nd, $tuple, $bytes, $float, $graph (double the $ of a plain key)")),
    }
}

fn opening(scanner: &mut Scanner<'_>, byte: u8, what: &str, depth: usize) -> Result<(), Fault> {
    if scanner.peek() != byte {
        return Err(scanner.unexpected(what));
    }
    scanner.value(depth + 1)
}

fn string<'a>(scanner: &mut Scanner<'a>) -> Result<&'a [u8], Fault> {
    scanner.expect(b'"')?;
    strings::skip(scanner)
}
