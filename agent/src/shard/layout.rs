//! The layout request: the form of observations is fixed, and what is there already has to fit.

use super::Shard;
use crate::channel::error::RequestError;
use crate::channel::request::FixLayout;
use crate::rows::error::{ErrorKind, RowError};
use crate::values::fit::fit;
use crate::values::layout::Layout;
use serde_json::json;
use std::rc::Rc;

const COLUMNS_LIMIT_BYTES: usize = 1 << 30;

impl Shard {
    /// Fixes the layout and moves the first observations into it.
    pub(crate) fn fix_layout(&mut self, sequence: u32, request: &FixLayout) -> Result<(), RequestError> {
        if self.layout.is_some() || self.last_seq > 0 {
            return Err(RequestError::new(
                "conflict",
                "received a second layout, expected one, before the first batch",
            ));
        }
        let layout = Layout::from_json(&request.layout).map_err(|fault| RequestError::invalid(fault.to_string()))?;
        let total_bytes = layout.row_bytes().saturating_mul(self.rows.len());
        if total_bytes > COLUMNS_LIMIT_BYTES {
            return Err(RequestError::invalid(format!(
                "received a layout of {total_bytes} bytes for {} rows, expected at most {COLUMNS_LIMIT_BYTES}",
                self.rows.len()
            )));
        }
        if let Layout::Array { fields, .. } = &layout {
            self.columns = fields.iter().map(|field| Rc::new(vec![0; field.bytes * self.rows.len()])).collect();
            self.layout = Some(layout);
            self.move_into_columns()?;
        } else {
            self.layout = Some(layout);
        }
        self.worker.reply(sequence, br#"{"ok":true}"#, []);
        Ok(())
    }

    fn move_into_columns(&mut self) -> Result<(), RequestError> {
        for local in 0..self.rows.len() {
            if !self.rows[local].observed {
                continue;
            }
            let observation = std::mem::take(&mut self.rows[local].observation.text);
            let Some(Layout::Array { fields, tree }) = &self.layout else {
                return Ok(());
            };
            match fit(fields, tree, &observation, &[], &mut self.fitted) {
                Ok(()) => self.place_fitted(local),
                Err(fault) => {
                    let row = self.rows[local].index;
                    let error = RowError::new(ErrorKind::Protocol, "reset", fault.to_string());
                    let mut details = error.to_json(false);
                    details["row"] = json!(row);
                    self.layout = None;
                    return Err(RequestError::new("environment_failed", format!("environment {row}: {fault}"))
                        .with_details(details));
                }
            }
        }
        Ok(())
    }
}
