//! One row's action out of a numeric buffer.

use super::dtype::Dtype;
use super::elements::Element;
use super::{lists, numbers};

/// The dtype and shape of one action of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionArray {
    /// The element type, numeric.
    pub dtype: Dtype,
    /// The shape of one action.
    pub shape: Vec<usize>,
    /// Bytes of one action.
    pub bytes: usize,
}

impl ActionArray {
    /// Appends the action's value. With `raw`, an array refers to bytes that the caller appends after the line, and
    /// true is returned; a scalar is always a plain number.
    pub fn write(&self, bytes: &[u8], raw: bool, out: &mut Vec<u8>) -> bool {
        if self.shape.is_empty() {
            Element::read(self.dtype, bytes).write_json(out);
            return false;
        }
        if !raw {
            lists::write(self.dtype, &self.shape, bytes, out);
            return false;
        }
        self.write_head(&self.shape, bytes.len(), out);
        true
    }

    /// Appends the actions of `count` rows as one value. With `raw` it refers to bytes that the caller appends after
    /// the line, their number follows as the member `raw`, and true is returned; else it is a list.
    pub fn write_rows(&self, bytes: &[u8], count: usize, raw: bool, out: &mut Vec<u8>) -> bool {
        let shape = [&[count], self.shape.as_slice()].concat();
        if raw {
            self.write_head(&shape, bytes.len(), out);
            out.extend_from_slice(b",\"raw\":");
            numbers::write_u64(out, bytes.len() as u64);
        } else {
            lists::write(self.dtype, &shape, bytes, out);
        }
        raw
    }

    fn write_head(&self, shape: &[usize], length_bytes: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"$nd":[""#);
        out.extend_from_slice(self.dtype.code().as_bytes());
        out.extend_from_slice(br#"",["#);
        for (position, length) in shape.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            numbers::write_u64(out, *length as u64);
        }
        out.extend_from_slice(b"],0,");
        numbers::write_u64(out, length_bytes as u64);
        out.extend_from_slice(b"]}");
    }
}
