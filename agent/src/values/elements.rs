//! Single elements of arrays: read, cast as numpy casts, written.

use super::dtype::{Dtype, Kind};
use super::fault::Fault;
use super::numbers;

/// One element of a numeric array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Element {
    /// A truth value.
    Bool(bool),
    /// An integer of any width.
    Integer(i128),
    /// A float of any width.
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
}

impl Element {
    /// Reads the element at the start of the bytes; the dtype is numeric.
    pub fn read(dtype: Dtype, bytes: &[u8]) -> Self {
        let word = little_endian(&bytes[..dtype.size.min(8)]);
        match dtype.kind {
            Kind::Bool => Self::Bool(bytes[0] != 0),
            Kind::Unsigned => Self::Integer(i128::from(word)),
            Kind::Signed => {
                let unused = 64 - 8 * dtype.size as u32;
                Self::Integer(i128::from(((word << unused) as i64) >> unused))
            }
            Kind::Complex => {
                let half = Dtype::new(Kind::Float, dtype.size / 2);
                Self::Complex(Self::read(half, bytes).real(), Self::read(half, &bytes[half.size..]).real())
            }
            _ => Self::Float(match dtype.size {
                2 => half_to_f64(word as u16),
                4 => f64::from(f32::from_bits(word as u32)),
                _ => f64::from_bits(word),
            }),
        }
    }

    /// Writes the element as numpy's `astype` would; the cast was allowed before.
    pub fn write(self, dtype: Dtype, out: &mut Vec<u8>) {
        match dtype.kind {
            Kind::Bool => out.push(u8::from(self.real() != 0.0)),
            Kind::Unsigned | Kind::Signed => out.extend_from_slice(&self.integer().to_le_bytes()[..dtype.size]),
            Kind::Complex => {
                let half = Dtype::new(Kind::Float, dtype.size / 2);
                Self::Float(self.real()).write(half, out);
                let imaginary = if let Self::Complex(_, imaginary) = self { imaginary } else { 0.0 };
                Self::Float(imaginary).write(half, out);
            }
            _ => match dtype.size {
                2 => out.extend_from_slice(&f64_to_half(self.real()).to_le_bytes()),
                4 => out.extend_from_slice(&self.single().to_le_bytes()),
                _ => out.extend_from_slice(&self.real().to_le_bytes()),
            },
        }
    }

    /// Writes the element as JSON.
    pub fn write_json(self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Self::Integer(value) => match i64::try_from(value) {
                Ok(small) => numbers::write_i64(out, small),
                Err(_) => numbers::write_u64(out, value as u64),
            },
            Self::Float(value) => numbers::write_f64(out, value),
            Self::Complex(real, imaginary) => {
                out.push(b'[');
                numbers::write_f64(out, real);
                out.push(b',');
                numbers::write_f64(out, imaginary);
                out.push(b']');
            }
        }
    }

    /// The real part as a double.
    pub fn real(self) -> f64 {
        match self {
            Self::Bool(value) => f64::from(u8::from(value)),
            Self::Integer(value) => value as f64,
            Self::Float(value) | Self::Complex(value, _) => value,
        }
    }

    fn single(self) -> f32 {
        if let Self::Integer(value) = self { value as f32 } else { self.real() as f32 }
    }

    fn integer(self) -> i128 {
        match self {
            Self::Bool(value) => i128::from(value),
            Self::Integer(value) => value,
            Self::Float(value) | Self::Complex(value, _) => value as i128,
        }
    }
}

/// Elements of one numeric dtype as those of another that the cast to was allowed before.
pub fn cast(source: &[u8], from: Dtype, to: Dtype) -> Vec<u8> {
    const DOUBLE: Dtype = Dtype::new(Kind::Float, 8);
    const SINGLE: Dtype = Dtype::new(Kind::Float, 4);
    // What environments mostly say and spaces mostly want.
    if from == DOUBLE && to == SINGLE {
        let doubles = source.as_chunks::<8>().0.iter();
        return doubles.flat_map(|chunk| (f64::from_le_bytes(*chunk) as f32).to_le_bytes()).collect();
    }
    let mut out = Vec::with_capacity(source.len() / from.size.max(1) * to.size);
    for element in source.chunks_exact(from.size.max(1)) {
        Element::read(from, element).write(to, &mut out);
    }
    out
}

/// A number token as an element of the dtype, refused where its value would be lost.
pub fn parse_number(token: &[u8], dtype: Dtype, out: &mut Vec<u8>) -> Result<(), Fault> {
    match dtype.kind {
        Kind::Float | Kind::Complex => {
            let value = numbers::parse_f64(token)?;
            Element::Float(value).write(dtype, out);
        }
        _ => {
            let value = numbers::parse_integer(token)?;
            if !in_range(value, dtype) {
                return Err(Fault::new(format!("received {value}, expected a number that {} holds", dtype.code())));
            }
            Element::Integer(value).write(dtype, out);
        }
    }
    Ok(())
}

fn in_range(value: i128, dtype: Dtype) -> bool {
    let bits = 8 * dtype.size as u32;
    match dtype.kind {
        Kind::Bool => (0..=1).contains(&value),
        Kind::Unsigned => (0..1i128 << bits).contains(&value),
        _ => (-(1i128 << (bits - 1))..1i128 << (bits - 1)).contains(&value),
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// IEEE 754 binary16 to double, exactly.
fn half_to_f64(half: u16) -> f64 {
    let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from((half >> 10) & 0x1f);
    let fraction = f64::from(half & 0x3ff);
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// Double to IEEE 754 binary16, ties to even.
fn f64_to_half(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    if magnitude.is_nan() {
        return sign | 0x7e00;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    if magnitude < 2f64.powi(-14) {
        return sign | (magnitude * 2f64.powi(24)).round_ties_even() as u16;
    }
    let exponent = ((magnitude.to_bits() >> 52) as i32) - 1023;
    let scaled = (magnitude * 2f64.powi(10 - exponent)).round_ties_even() as u32;
    // A mantissa rounded up to 2048 carries into the exponent by plain addition.
    sign | (((exponent + 15) as u32) << 10).wrapping_add(scaled - 1024) as u16
}
