//! What a vectorised environment cannot do for a part of its rows is refused before anything is sent.

use crate::batches::batch::{Message, Spread, Work};
use crate::channel::error::RequestError;
use crate::rows::pack::{Life, Pack};
use crate::rows::vector::Vector;
use crate::shard::Shard;
use serde_json::json;

impl Shard {
    /// Checks a message against what the pool's vectorised environment supports.
    pub(crate) fn check_vector(&self, message: &Message) -> Result<(), RequestError> {
        let Some(vector) = &self.vector else {
            return Ok(());
        };
        let mut begin = 0;
        while begin < message.rows.len() {
            let pack = &self.packs[self.rows[message.rows[begin]].pack];
            let end = begin + message.rows[begin..].partition_point(|local| *local < pack.rows.end);
            self.check_part(vector, pack, message, begin..end)?;
            begin = end;
        }
        Ok(())
    }

    fn check_part(
        &self,
        vector: &Vector,
        pack: &Pack,
        message: &Message,
        slots: std::ops::Range<usize>,
    ) -> Result<(), RequestError> {
        let whole = slots.len() == pack.rows.len();
        match &message.work {
            Work::Step(_) if !whole => Err(self.refusal(vector, pack, "steps all rows of a process together")),
            Work::Reset { hard: true, .. } if !whole => {
                Err(self.refusal(vector, pack, "can only be replaced with all rows of its process"))
            }
            Work::Reset { seeds, options, .. } => {
                if !whole && !vector.partial_reset {
                    return Err(self.refusal(vector, pack, "resets all rows of a process together"));
                }
                if !whole && !self.all_healthy(pack) {
                    return Err(self.refusal(vector, pack, "was made anew and has to be reset with all rows"));
                }
                if !vector.row_seeds && !follow(seeds.as_ref().map_or(&[], |seeds| &seeds[slots.clone()])) {
                    return Err(self.refusal(vector, pack, "takes one seed for a process, that of its first row"));
                }
                if let Spread::Each(places) = options
                    && !vector.row_seeds
                    && places[slots]
                        .windows(2)
                        .any(|pair| message.body[pair[0].clone()] != message.body[pair[1].clone()])
                {
                    return Err(self.refusal(vector, pack, "takes the same options for all rows of a process"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn all_healthy(&self, pack: &Pack) -> bool {
        pack.life == Life::Ready && self.rows[pack.rows.clone()].iter().all(|row| row.error.is_none() && !row.fresh)
    }

    fn refusal(&self, vector: &Vector, pack: &Pack, what: &str) -> RequestError {
        let rows = self.names_of(pack);
        let class = &vector.class;
        RequestError::new("vectorized_unsupported", format!("{class} {what}; {rows} are one process"))
            .with_hint("select whole processes and give one seed, or serve the environment with serve(make=…)")
            .with_details(json!({"class": class}))
    }

    /// The rows of a process, for messages.
    pub(crate) fn names_of(&self, pack: &Pack) -> String {
        let first = self.rows[pack.rows.start].index;
        match pack.rows.len() {
            1 => format!("row {first}"),
            count => format!("rows {first} to {}", first as usize + count - 1),
        }
    }
}

/// True for seeds that a process can make of its first one: each is one more than the last, or there is none.
fn follow(seeds: &[Option<u64>]) -> bool {
    seeds.windows(2).all(|pair| match (pair[0], pair[1]) {
        (None, None) => true,
        (Some(first), Some(second)) => first.checked_add(1) == Some(second),
        _ => false,
    })
}
