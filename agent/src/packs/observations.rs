//! Observations of several rows: stacked ones go into the columns in one copy a field.

use super::errors::{Failures, has_failed};
use crate::rows::error::{ErrorKind, RowError};
use crate::rows::row::Value;
use crate::shard::{Shard, keep};
use crate::values::fault::Fault;
use crate::values::layout::Layout;
use crate::values::packed;
use crate::values::reply::Member;
use crate::values::stack;
use std::rc::Rc;

impl Shard {
    /// Keeps the observations of the rows that did not fail as their last good ones. A row of a list whose
    /// observation does not fit joins the failed ones; a stack that does not fit is the process's fault, and nothing
    /// of it is kept.
    pub(crate) fn keep_observations(
        &mut self,
        rows: &[usize],
        member: &Member<'_>,
        raw: &[u8],
        failures: &mut Failures,
        op: &'static str,
    ) -> Result<(), Fault> {
        if member.text.first() == Some(&b'[') {
            return self.keep_each(rows, member, raw, failures, op);
        }
        if !matches!(self.layout, Some(Layout::Array { .. })) {
            return self.keep_unstacked(rows, member, raw, failures);
        }
        self.keep_stacked(rows, member, raw, failures)?;
        for (place, local) in rows.iter().enumerate() {
            self.rows[*local].observed |= !has_failed(failures, place);
        }
        Ok(())
    }

    /// Copies a stack into the columns of an array pool.
    pub(super) fn keep_stacked(
        &mut self,
        rows: &[usize],
        member: &Member<'_>,
        raw: &[u8],
        failures: &Failures,
    ) -> Result<(), Fault> {
        let Some(Layout::Array { fields, tree }) = &self.layout else {
            return Ok(());
        };
        let blocks = stack::blocks(fields, tree, rows.len(), member.text, raw)?;
        let all = self.rows.len();
        for (column, block) in self.columns.iter_mut().zip(&blocks) {
            let row_bytes = column.len() / all;
            // Shared only while a reply with it is still being written; then the copy is what keeps that reply whole.
            let column = Rc::make_mut(column);
            for (from, to) in runs(rows, failures) {
                let target = rows[from] * row_bytes..(rows[from] + to - from) * row_bytes;
                column[target].copy_from_slice(&block[from * row_bytes..to * row_bytes]);
            }
        }
        Ok(())
    }

    fn keep_each(
        &mut self,
        rows: &[usize],
        member: &Member<'_>,
        raw: &[u8],
        failures: &mut Failures,
        op: &'static str,
    ) -> Result<(), Fault> {
        let mut misfits = Vec::new();
        for (place, at) in packed::list(member.text, rows.len(), "obs")?.into_iter().enumerate() {
            if has_failed(failures, place) {
                continue;
            }
            let item = packed::item(&member.text[at])?;
            if let Err(fault) = self.keep_observation(rows[place], &item, raw) {
                misfits.push((place, RowError::new(ErrorKind::Protocol, op, fault.to_string())));
            }
        }
        failures.append(&mut misfits);
        failures.sort_by_key(|(place, _)| *place);
        Ok(())
    }

    /// A list pool, or observations before the layout is known: a text for each row.
    fn keep_unstacked(
        &mut self,
        rows: &[usize],
        member: &Member<'_>,
        raw: &[u8],
        failures: &Failures,
    ) -> Result<(), Fault> {
        for (place, local) in rows.iter().enumerate() {
            if has_failed(failures, place) {
                continue;
            }
            let mut observation = std::mem::take(&mut self.spare);
            let unstacked = unstack(member, raw, rows.len(), place, &mut observation)
                .and_then(|()| self.check_size(observation.text.len(), "an observation"));
            if unstacked.is_ok() {
                let row = &mut self.rows[*local];
                std::mem::swap(&mut row.observation, &mut observation);
                row.observed = true;
            }
            self.spare = observation;
            unstacked?;
        }
        Ok(())
    }
}

/// One row's observation of an answer, as a text of its own.
pub(crate) fn unstack(
    member: &Member<'_>,
    raw: &[u8],
    count: usize,
    place: usize,
    value: &mut Value,
) -> Result<(), Fault> {
    value.clear();
    if member.text.first() == Some(&b'[') {
        let places = packed::list(member.text, count, "obs")?;
        return keep(value, &packed::item(&member.text[places[place].clone()])?, raw);
    }
    value.arrays = stack::unstack(member.text, raw, count, place, &mut value.text)?;
    Ok(())
}

/// Ranges of places whose rows did not fail and follow one another.
fn runs(rows: &[usize], failures: &Failures) -> Vec<(usize, usize)> {
    let whole = rows.last().zip(rows.first()).is_some_and(|(last, first)| last - first + 1 == rows.len());
    if whole && failures.is_empty() {
        return vec![(0, rows.len())];
    }
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (place, local) in rows.iter().enumerate() {
        if has_failed(failures, place) {
            continue;
        }
        match runs.last_mut() {
            Some((_, to)) if *to == place && rows[place - 1] + 1 == *local => *to += 1,
            _ => runs.push((place, place + 1)),
        }
    }
    runs
}
