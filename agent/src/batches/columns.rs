//! The columns of a reply: joined texts, or buffers.

use crate::channel::request::Encoding;
use crate::channel::writer::Part;
use crate::rows::row::{Row, Value};
use crate::shard::Shard;
use crate::values::layout::{Field, Layout, Tree};
use crate::values::rewrite::{Arrays, rewrite};
use crate::values::{lists, numbers, strings};
use std::rc::Rc;

/// What a reply is made of: the entries of its head, and the body.
#[derive(Default)]
pub(crate) struct Columns {
    /// The text between the brackets of `columns`.
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<Part>,
    /// What follows the observations.
    rest: Vec<u8>,
}

impl Columns {
    fn entry(&mut self, name: &str, field: Option<usize>, json: bool, bytes: usize) {
        if !self.head.is_empty() {
            self.head.push(b',');
        }
        self.head.extend_from_slice(b"{\"name\":\"");
        self.head.extend_from_slice(name.as_bytes());
        self.head.push(b'"');
        if let Some(field) = field {
            self.head.extend_from_slice(b",\"field\":");
            numbers::write_u64(&mut self.head, field as u64);
        }
        if json {
            self.head.extend_from_slice(b",\"json\":true");
        }
        self.head.extend_from_slice(b",\"length\":");
        numbers::write_u64(&mut self.head, bytes as u64);
        self.head.push(b'}');
    }

    /// Adds a column whose bytes a closure appends; `json` marks it as text in a binary reply.
    pub(crate) fn add(&mut self, name: &str, json: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.rest.len();
        write(&mut self.rest);
        let bytes = self.rest.len() - before;
        self.entry(name, None, json, bytes);
    }

    /// The body, complete.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<Part>) {
        if !self.rest.is_empty() {
            self.body.push(Part::Shared(Rc::new(self.rest)));
        }
        (self.head, self.body)
    }
}

/// Appends items with commas between them.
pub(crate) fn join<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    for (position, item) in items.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write(out, item);
    }
}

/// Appends a kept value as the encoding wants it; `default` stands for an empty one.
pub(crate) fn write_value(out: &mut Vec<u8>, value: &Value, encoding: Encoding, default: &[u8]) {
    if value.text.is_empty() {
        return out.extend_from_slice(default);
    }
    let before = out.len();
    if encoding == Encoding::Json && value.arrays {
        if rewrite(&value.text, &[], Arrays::Lists, out).is_ok() {
            return;
        }
        // It was rewritten once before, so this cannot fail; the tagged form is valid in any case.
        out.truncate(before);
    }
    out.extend_from_slice(&value.text);
}

/// Adds the infos: all of them for JSON, those that say something for buffers.
pub(crate) fn add_infos<'a>(
    columns: &mut Columns,
    encoding: Encoding,
    rows: impl Iterator<Item = (&'a Row, &'a Value)>,
) {
    columns.add("infos", encoding == Encoding::Binary, |out| {
        if encoding == Encoding::Json {
            return join(out, rows, |out, (_, info)| write_value(out, info, encoding, b"{}"));
        }
        join(out, rows.filter(|(_, info)| !info.text.is_empty()), |out, (row, info)| {
            out.push(b'"');
            numbers::write_u64(out, u64::from(row.index));
            out.extend_from_slice(b"\":");
            out.extend_from_slice(&info.text);
        });
    });
}

impl Shard {
    /// Adds the last good observations of the rows; `failed` tells which slots have none.
    pub(crate) fn add_observations(
        &self,
        columns: &mut Columns,
        encoding: Encoding,
        rows: &[usize],
        failed: &dyn Fn(usize) -> bool,
        any_failed: bool,
    ) {
        let Some(Layout::Array { fields, tree }) = &self.layout else {
            return columns.add("obs", encoding == Encoding::Binary, |out| {
                join(out, rows.iter().enumerate(), |out, (slot, local)| {
                    let row = &self.rows[*local];
                    if failed(slot) || !row.observed {
                        return out.extend_from_slice(b"null");
                    }
                    write_value(out, &row.observation, encoding, b"null");
                });
            });
        };
        if encoding == Encoding::Json {
            return columns.add("obs", false, |out| {
                join(out, rows.iter().enumerate(), |out, (slot, local)| {
                    if failed(slot) || !self.rows[*local].observed {
                        return out.extend_from_slice(b"null");
                    }
                    self.write_lists(out, fields, tree, *local);
                });
            });
        }
        let whole = rows.len() == self.rows.len() && !any_failed;
        for (number, (field, column)) in fields.iter().zip(&self.columns).enumerate() {
            let part = if whole { Rc::clone(column) } else { Rc::new(gather(field, column, rows, failed)) };
            columns.entry("obs", Some(number), false, part.len());
            columns.body.push(Part::Shared(part));
        }
    }

    fn write_lists(&self, out: &mut Vec<u8>, fields: &[Field], tree: &Tree, local: usize) {
        match tree {
            Tree::Field(number) => {
                let field = &fields[*number];
                let bytes = &self.columns[*number][local * field.bytes..(local + 1) * field.bytes];
                lists::write(field.dtype, &field.shape, bytes, out);
            }
            Tree::Dict(members) => {
                out.push(b'{');
                join(out, members, |out, (key, tree)| {
                    // A plain key that begins with the tags' sign is doubled, as everywhere in JSON.
                    let doubled = if key.starts_with('$') { "$" } else { "" };
                    strings::write(out, &format!("{doubled}{key}"));
                    out.push(b':');
                    self.write_lists(out, fields, tree, local);
                });
                out.push(b'}');
            }
            Tree::Tuple(members) => {
                out.extend_from_slice(b"{\"$tuple\":[");
                join(out, members, |out, tree| self.write_lists(out, fields, tree, local));
                out.extend_from_slice(b"]}");
            }
        }
    }
}

/// The selected rows of a column, zeros for failed ones.
fn gather(field: &Field, column: &[u8], rows: &[usize], failed: &dyn Fn(usize) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(rows.len() * field.bytes);
    for (slot, local) in rows.iter().enumerate() {
        if failed(slot) {
            out.resize(out.len() + field.bytes, 0);
        } else {
            out.extend_from_slice(&column[local * field.bytes..(local + 1) * field.bytes]);
        }
    }
    out
}
