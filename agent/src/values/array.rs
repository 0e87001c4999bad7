//! One `$nd` value: dtype, shape, and where its bytes are.

use super::dtype::Dtype;
use super::fault::Fault;
use super::scan::Scanner;
use super::strings;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

/// Numpy's own limit.
const DIMENSIONS_LIMIT: usize = 64;

/// An array as it was written; nothing of it is decoded.
#[derive(Debug, Clone, Copy)]
pub struct Array<'a> {
    /// The element type.
    pub dtype: Dtype,
    /// The dtype as written.
    pub dtype_text: &'a [u8],
    dimensions: [usize; DIMENSIONS_LIMIT],
    rank: usize,
    /// Bytes of all elements.
    pub size_bytes: usize,
    data: Data<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Data<'a> {
    Base64(&'a [u8]),
    Raw { offset: usize },
}

impl<'a> Array<'a> {
    /// Reads `["<f4",[4],"base64"]` or `["<f4",[4],offset,length]`; the scanner stands at the bracket.
    pub fn parse(scanner: &mut Scanner<'a>) -> Result<Self, Fault> {
        scanner.expect(b'[')?;
        scanner.skip_space();
        scanner.expect(b'"')?;
        let dtype_text = strings::skip(scanner)?;
        let dtype = Dtype::parse(dtype_text)?;
        comma(scanner)?;
        let (dimensions, rank) = shape(scanner)?;
        let bytes = dimensions[..rank].iter().try_fold(dtype.size, |product, length| product.checked_mul(*length));
        let Some(bytes) = bytes else { return Err(scanner.unexpected("a smaller shape before this")) };
        comma(scanner)?;
        let data = if scanner.peek() == b'"' { base64(scanner, bytes)? } else { raw(scanner, bytes)? };
        scanner.skip_space();
        scanner.expect(b']')?;
        Ok(Self { dtype, dtype_text, dimensions, rank, size_bytes: bytes, data })
    }

    /// The lengths of its dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.dimensions[..self.rank]
    }

    /// True when the bytes follow the line.
    pub fn is_raw(&self) -> bool {
        matches!(self.data, Data::Raw { .. })
    }

    /// The elements' bytes; those that follow the line are not copied.
    pub fn bytes<'r>(&self, raw: &'r [u8]) -> Result<Cow<'r, [u8]>, Fault> {
        if let Data::Raw { offset } = self.data {
            return self.raw_bytes(offset, raw).map(Cow::Borrowed);
        }
        let mut bytes = Vec::new();
        self.decode(raw, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    fn raw_bytes<'r>(&self, offset: usize, raw: &'r [u8]) -> Result<&'r [u8], Fault> {
        raw.get(offset..offset.saturating_add(self.size_bytes)).ok_or_else(|| {
            let end = offset.saturating_add(self.size_bytes);
            Fault::new(format!("an array points at bytes {offset}..{end} of {} raw bytes", raw.len()))
        })
    }

    /// Appends the elements' bytes.
    pub fn decode(&self, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        match self.data {
            Data::Raw { offset } => out.extend_from_slice(self.raw_bytes(offset, raw)?),
            Data::Base64(text) => {
                let before = out.len();
                // The decoder wants room for whole groups of three bytes.
                out.resize(before + text.len() / 4 * 3, 0);
                let written = STANDARD.decode_slice(text, &mut out[before..]).unwrap_or(usize::MAX);
                if written != self.size_bytes {
                    out.truncate(before);
                    return Err(Fault::new("an array whose text is not base64 of its size"));
                }
                out.truncate(before + written);
            }
        }
        Ok(())
    }

    /// Appends the tagged form with the bytes in base64.
    pub fn write_tagged(&self, bytes: &[u8], out: &mut Vec<u8>) {
        self.write_part(self.shape(), bytes, out);
    }

    /// Appends the tagged form of a part of it: elements of its dtype in another shape.
    pub fn write_part(&self, shape: &[usize], bytes: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"$nd":[""#);
        out.extend_from_slice(self.dtype_text);
        out.extend_from_slice(br#"",["#);
        for (position, length) in shape.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            super::numbers::write_u64(out, *length as u64);
        }
        out.extend_from_slice(br#"],""#);
        let before = out.len();
        out.resize(before + bytes.len().div_ceil(3) * 4, 0);
        let written = STANDARD.encode_slice(bytes, &mut out[before..]).unwrap_or(0);
        out.truncate(before + written);
        out.extend_from_slice(br#""]}"#);
    }
}

fn comma(scanner: &mut Scanner<'_>) -> Result<(), Fault> {
    scanner.skip_space();
    scanner.expect(b',')?;
    scanner.skip_space();
    Ok(())
}

fn shape(scanner: &mut Scanner<'_>) -> Result<([usize; DIMENSIONS_LIMIT], usize), Fault> {
    let mut dimensions = [0; DIMENSIONS_LIMIT];
    let mut rank = 0;
    scanner.expect(b'[')?;
    scanner.skip_space();
    if scanner.peek() == b']' {
        scanner.at += 1;
        return Ok((dimensions, 0));
    }
    loop {
        if rank == DIMENSIONS_LIMIT {
            return Err(scanner.unexpected("at most 64 dimensions"));
        }
        dimensions[rank] = unsigned(scanner)?;
        rank += 1;
        if scanner.closes(b']')? {
            return Ok((dimensions, rank));
        }
    }
}

fn base64<'a>(scanner: &mut Scanner<'a>, bytes: usize) -> Result<Data<'a>, Fault> {
    scanner.at += 1;
    let text = strings::skip(scanner)?;
    let expected = bytes.div_ceil(3).saturating_mul(4);
    if text.len() != expected {
        return Err(scanner.unexpected(&format!(
            "{expected} characters of base64 for {bytes} bytes of array, not {}, before this",
            text.len()
        )));
    }
    Ok(Data::Base64(text))
}

fn raw<'a>(scanner: &mut Scanner<'_>, bytes: usize) -> Result<Data<'a>, Fault> {
    let offset = unsigned(scanner)?;
    comma(scanner)?;
    let length = unsigned(scanner)?;
    if length != bytes {
        return Err(scanner.unexpected(&format!("{bytes} raw bytes for the array before this, not {length}")));
    }
    Ok(Data::Raw { offset })
}

/// A plain unsigned integer.
pub fn unsigned(scanner: &mut Scanner<'_>) -> Result<usize, Fault> {
    let start = scanner.at;
    let mut value: usize = 0;
    while scanner.peek().is_ascii_digit() && scanner.at - start < 18 {
        value = value * 10 + usize::from(scanner.peek() - b'0');
        scanner.at += 1;
    }
    if scanner.at == start { Err(scanner.unexpected("an unsigned integer")) } else { Ok(value) }
}
