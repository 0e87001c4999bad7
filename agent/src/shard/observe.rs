//! Every row's last good observation, without asking anybody.

use super::Shard;
use crate::batches::columns::{Columns, add_infos};
use crate::channel::error::RequestError;
use crate::channel::request::Encoding;
use crate::values::numbers::write_u64;

impl Shard {
    /// Answers an observe request.
    pub(crate) fn observe(&mut self, sequence: u32, encoding: Encoding) -> Result<(), RequestError> {
        if self.layout.is_none() {
            return Err(RequestError::new("conflict", "received observe before layout").with_hint("send layout first"));
        }
        let rows: Vec<usize> = (0..self.rows.len()).collect();
        let mut columns = Columns::default();
        self.add_observations(&mut columns, encoding, &rows, &|_| false, false);
        add_infos(&mut columns, encoding, self.rows.iter().map(|row| (row, &row.reset_info)));
        let (columns, body) = columns.finish();
        let mut head = b"{\"ok\":true,\"rows\":".to_vec();
        write_u64(&mut head, rows.len() as u64);
        head.extend_from_slice(b",\"columns\":[");
        head.extend_from_slice(&columns);
        head.extend_from_slice(b"]}");
        self.worker.reply(sequence, &head, body);
        Ok(())
    }
}
