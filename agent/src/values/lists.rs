//! Arrays as nested JSON lists.

use super::dtype::{Dtype, Kind};
use super::elements::Element;
use super::strings;

/// True for dtypes whose elements JSON can say.
pub fn can_write(dtype: Dtype) -> bool {
    dtype.kind != Kind::Opaque
}

/// Appends an array as nested lists, a scalar as one value; `bytes` has the size of the shape.
pub fn write(dtype: Dtype, shape: &[usize], bytes: &[u8], out: &mut Vec<u8>) {
    let Some((length, inner)) = shape.split_first() else {
        return element(dtype, bytes, out);
    };
    let stride = inner.iter().product::<usize>() * dtype.size;
    out.push(b'[');
    for position in 0..*length {
        if position > 0 {
            out.push(b',');
        }
        write(dtype, inner, &bytes[position * stride..(position + 1) * stride], out);
    }
    out.push(b']');
}

fn element(dtype: Dtype, bytes: &[u8], out: &mut Vec<u8>) {
    if dtype.kind != Kind::Text {
        return Element::read(dtype, bytes).write_json(out);
    }
    let characters = bytes
        .chunks_exact(4)
        .map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]))
        .map(|code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
    let text: String = characters.collect();
    strings::write(out, text.trim_end_matches('\0'));
}
