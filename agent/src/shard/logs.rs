//! What a row wrote to standard error.

use super::{Shard, TURN_BYTES};
use crate::channel::error::RequestError;
use crate::channel::writer::Part;

impl Shard {
    /// Answers a logs request.
    pub(crate) fn tell_logs(&mut self, sequence: u32, index: u32) -> Result<(), RequestError> {
        let (first, count) = (self.settings.first, self.settings.count);
        let Some(local) = index.checked_sub(first).filter(|local| *local < count) else {
            return Err(RequestError::invalid(format!(
                "received the row {index}, expected {first} to {}",
                first + count - 1
            )));
        };
        let row = &mut self.rows[local as usize];
        if let Some(process) = &mut row.process {
            process.read_stderr(&mut row.log, &mut self.scratch, TURN_BYTES);
        }
        let log = row.log.tail().to_vec();
        self.worker.reply(sequence, br#"{"ok":true}"#, [Part::Own(log)]);
        Ok(())
    }
}
