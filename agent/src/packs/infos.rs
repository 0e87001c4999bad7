//! Infos of several rows: a list, or only those that say something.

use super::answer::place_of;
use crate::shard::{Shard, keep_info};
use crate::values::fault::Fault;
use crate::values::packed;
use crate::values::reply::Member;

impl Shard {
    /// Keeps what an answer says of each row; a row that is not named has an empty info.
    pub(crate) fn keep_infos(
        &mut self,
        number: usize,
        rows: &[usize],
        member: Option<Member<'_>>,
        raw: &[u8],
    ) -> Result<(), Fault> {
        for local in rows {
            self.rows[*local].info.clear();
        }
        let Some(member) = member else {
            return Ok(());
        };
        let text = member.text;
        if text.first() == Some(&b'[') {
            for (local, place) in rows.iter().zip(packed::list(text, rows.len(), "infos")?) {
                let item = packed::item(&text[place])?;
                self.keep_info_of(*local, &item, raw)?;
            }
            return Ok(());
        }
        let first = self.packs[number].rows.start;
        let mut done = Ok(());
        packed::by_row(text, "infos", |row, (place, found)| {
            if done.is_ok() {
                let item = Member { text: &text[place], found };
                done = place_of(rows, first, row, "infos")
                    .and_then(|position| self.keep_info_of(rows[position], &item, raw));
            }
        })?;
        done
    }

    fn keep_info_of(&mut self, local: usize, item: &Member<'_>, raw: &[u8]) -> Result<(), Fault> {
        keep_info(&mut self.rows[local].info, Some(item).filter(|item| item.text != b"null"), raw)?;
        self.check_size(self.rows[local].info.text.len(), "an info")
    }
}
