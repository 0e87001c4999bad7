//! The free-form `config` of the client's create request, as raw text.

use crate::channel::error::RequestError;
use crate::values::items;
use crate::values::rewrite::{Arrays, rewrite};
use crate::values::scan::scan_value;
use std::ops::Range;

/// One config for all rows, or one each.
#[derive(Debug, Default)]
pub(crate) struct Config {
    shared: Option<Vec<u8>>,
    per_row: Option<Vec<Vec<u8>>>,
}

impl Config {
    /// Takes `config` from the body of a start for the rows `first … first + count - 1` of `n`.
    pub(crate) fn from_body(body: &[u8], n: u32, first: u32, count: u32) -> Result<Self, RequestError> {
        let refuse = |what: String| RequestError::invalid(format!("the body of start: {what}"));
        if body.is_empty() {
            return Ok(Self::default());
        }
        let place = items::member(body, b"config").map_err(|fault| refuse(fault.to_string()))?;
        let Some(place) = place else {
            return Ok(Self::default());
        };
        if !items::is_list(body, &place) {
            return Ok(Self { shared: Some(line_safe(&body[place])), per_row: None });
        }
        let mut places = Vec::new();
        items::items(body, &place, &mut places).map_err(|fault| refuse(fault.to_string()))?;
        if places.len() != n as usize {
            return Err(refuse(format!(
                "config is a list of {}, expected one object for all rows or a list of {n}",
                places.len()
            )));
        }
        let mine = &places[first as usize..(first + count) as usize];
        Ok(Self { shared: None, per_row: Some(mine.iter().map(|place| line_safe(&body[place.clone()])).collect()) })
    }

    /// True when every row has its own.
    pub(crate) fn is_per_row(&self) -> bool {
        self.per_row.is_some()
    }

    /// The config of all rows, for a template.
    pub(crate) fn shared(&self) -> &[u8] {
        self.shared.as_deref().unwrap_or(b"null")
    }

    /// Appends the member with the config of local rows: `config`, or `configs` of several rows with one each.
    pub(crate) fn write(&self, rows: Range<usize>, line: &mut Vec<u8>) {
        let Some(each) = self.per_row.as_ref().map(|each| &each[rows]) else {
            line.extend_from_slice(b",\"config\":");
            return line.extend_from_slice(self.shared());
        };
        if let [one] = each {
            line.extend_from_slice(b",\"config\":");
            return line.extend_from_slice(one);
        }
        line.extend_from_slice(b",\"config\":null,\"configs\":[");
        line.extend_from_slice(&each.join(&b','));
        line.push(b']');
    }
}

/// A value that was scanned, without line ends and bare NaN.
fn line_safe(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    if scan_value(text).is_ok_and(|found| found.special()) && rewrite(text, &[], Arrays::Tagged, &mut plain).is_ok() {
        let rewritten = std::mem::take(&mut plain);
        items::append_line_safe(&mut plain, &rewritten);
        return plain;
    }
    plain.clear();
    items::append_line_safe(&mut plain, text);
    plain
}
