//! What a row's process wrote to standard error.

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
        let pack = &mut self.packs[self.rows[local as usize].pack];
        if let Some(process) = &mut pack.process {
            process.read_stderr(&mut pack.log, &mut self.scratch, TURN_BYTES);
        }
        let log = pack.log.tail().to_vec();
        self.worker.reply(sequence, br#"{"ok":true}"#, [Part::Own(log)]);
        Ok(())
    }
}
