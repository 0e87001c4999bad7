//! Numbers as text, both ways.

use super::fault::{Fault, excerpt};

/// Appends an unsigned integer.
#[inline]
pub fn write_u64(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = value;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends a signed integer.
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_u64(out, value.unsigned_abs());
}

/// Appends a float in the shortest form that reads back as the same; what JSON lacks is tagged.
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut *out, &value);
    } else {
        out.extend_from_slice(tagged(value));
    }
}

/// The tagged form of a float that JSON lacks.
pub fn tagged(value: f64) -> &'static [u8] {
    if value.is_nan() {
        br#"{"$float":"nan"}"#
    } else if value > 0.0 {
        br#"{"$float":"inf"}"#
    } else {
        br#"{"$float":"-inf"}"#
    }
}

/// The value of a `$float` tag's string.
pub fn named(name: &[u8]) -> Option<f64> {
    match name {
        b"nan" => Some(f64::NAN),
        b"inf" => Some(f64::INFINITY),
        b"-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// A number token, bare words included.
pub fn parse_f64(token: &[u8]) -> Result<f64, Fault> {
    match token {
        b"NaN" => return Ok(f64::NAN),
        b"Infinity" => return Ok(f64::INFINITY),
        b"-Infinity" => return Ok(f64::NEG_INFINITY),
        _ => {}
    }
    let text =
        std::str::from_utf8(token).ok().filter(|text| text.starts_with(|c: char| c == '-' || c.is_ascii_digit()));
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| Fault::new(format!("received {}, expected a number", excerpt(token))))
}

/// A number token as an integer: `3`, and also `3.0`, as long as nothing is lost.
pub fn parse_integer(token: &[u8]) -> Result<i128, Fault> {
    if let Some(value) = std::str::from_utf8(token).ok().and_then(|text| text.parse::<i128>().ok()) {
        return Ok(value);
    }
    let value = parse_f64(token)?;
    if value.fract() == 0.0 && value.abs() < 1e18 {
        return Ok(value as i128);
    }
    Err(Fault::new(format!("received {}, expected an integer in range", excerpt(token))))
}
