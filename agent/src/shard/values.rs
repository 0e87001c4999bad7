//! Takes values from answers into what the shard keeps.

use super::Shard;
use crate::rows::row::Value;
use crate::values::fault::{Fault, excerpt};
use crate::values::fit::fit;
use crate::values::layout::Layout;
use crate::values::reply::Member;
use crate::values::rewrite::{Arrays, rewrite};
use std::rc::Rc;

/// Puts a member's text where it is kept, rewritten if it has to be.
pub(crate) fn keep(value: &mut Value, member: &Member<'_>, raw: &[u8]) -> Result<(), Fault> {
    value.clear();
    value.note(member.found);
    if member.found.special() {
        return rewrite(member.text, raw, Arrays::Tagged, &mut value.text);
    }
    value.text.extend_from_slice(member.text);
    Ok(())
}

/// Like `keep` for an info: nothing and `{}` become the default.
pub(crate) fn keep_info(value: &mut Value, member: Option<&Member<'_>>, raw: &[u8]) -> Result<(), Fault> {
    value.clear();
    let Some(member) = member else {
        return Ok(());
    };
    if member.text == b"{}" {
        return Ok(());
    }
    if member.text.first() != Some(&b'{') {
        return Err(Fault::new(format!("received the info {}, expected an object", excerpt(member.text))));
    }
    if member.text[1..member.text.len() - 1].trim_ascii().is_empty() {
        return Ok(());
    }
    keep(value, member, raw)
}

/// Adds a member to an info.
pub(crate) fn add_member(info: &mut Value, name: &str, text: &[u8]) {
    let out = &mut info.text;
    if out.is_empty() {
        out.push(b'{');
    } else {
        out.pop();
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    out.extend_from_slice(text);
    out.push(b'}');
}

impl Shard {
    /// Keeps an observation as the row's last good one; nothing changes if it does not fit.
    pub(crate) fn keep_observation(&mut self, local: usize, member: &Member<'_>, raw: &[u8]) -> Result<(), Fault> {
        if let Some(Layout::Array { fields, tree }) = &self.layout {
            fit(fields, tree, member.text, raw, &mut self.fitted)?;
            self.place_fitted(local);
            return Ok(());
        }
        let mut observation = std::mem::take(&mut self.spare);
        let kept = keep(&mut observation, member, raw)
            .and_then(|()| self.check_size(observation.text.len(), "an observation"));
        if kept.is_ok() {
            let row = &mut self.rows[local];
            std::mem::swap(&mut row.observation, &mut observation);
            row.observed = true;
        }
        self.spare = observation;
        kept
    }

    /// Checks that an observation would fit, without keeping it.
    pub(crate) fn check_observation(&mut self, member: &Member<'_>, raw: &[u8]) -> Result<(), Fault> {
        if let Some(Layout::Array { fields, tree }) = &self.layout {
            return fit(fields, tree, member.text, raw, &mut self.fitted);
        }
        Ok(())
    }

    /// Copies the fitted row into the columns.
    #[inline]
    pub(crate) fn place_fitted(&mut self, local: usize) {
        let mut start = 0;
        for column in &mut self.columns {
            let row_bytes = column.len() / self.rows.len();
            let place = local * row_bytes..(local + 1) * row_bytes;
            // Shared only while a reply with it is still being written; then the copy is what keeps that reply whole.
            Rc::make_mut(column)[place].copy_from_slice(&self.fitted[start..start + row_bytes]);
            start += row_bytes;
        }
        self.rows[local].observed = true;
    }

    /// A value over its row's share of a batch is refused.
    pub(crate) fn check_size(&self, bytes: usize, what: &str) -> Result<(), Fault> {
        let limit = self.settings.max_row_bytes;
        if bytes <= limit {
            return Ok(());
        }
        Err(Fault::new(format!("{what} of {bytes} bytes, more than a row's share of {limit}")))
    }
}
