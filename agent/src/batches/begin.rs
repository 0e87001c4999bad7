//! Takes a batch in: its number, its rows, its work. Nothing is sent before all of it was checked.

use super::batch::{Actions, Batch, Message, Spread, Work};
use super::kept::Kept;
use crate::channel::error::RequestError;
use crate::channel::request;
use crate::rows::row::Task;
use crate::shard::{Shard, parse};
use crate::values::action::ActionArray;
use crate::values::dtype::Dtype;
use crate::values::fault::Fault;
use crate::values::items::{self, Span};
use crate::values::rewrite::{Arrays, rewrite};
use serde_json::json;
use std::ops::Range;

impl Shard {
    /// Begins a batch, or repeats the last reply.
    pub(crate) fn begin_batch(
        &mut self,
        sequence: u32,
        op: &str,
        head: &[u8],
        body: &mut Vec<u8>,
    ) -> Result<(), RequestError> {
        let request: request::Batch = parse(head)?;
        if self.repeat_or_expect(sequence, request.seq)? {
            return Ok(());
        }
        match self.check_batch(sequence, op, head, &request, body) {
            Ok(batch) => self.run_batch(batch),
            Err(error) => {
                // A refused batch uses up its number too, so that every shard of a pool counts alike.
                self.last_seq = request.seq;
                self.kept = Some(Kept { seq: request.seq, head: error.head(), body: Vec::new() });
                return Err(error);
            }
        }
        Ok(())
    }

    /// Repeats the last reply for its number: true then. Any other number than the next one is an error.
    pub(crate) fn repeat_or_expect(&mut self, sequence: u32, seq: u64) -> Result<bool, RequestError> {
        if let Some(kept) = self.kept.as_ref().filter(|kept| kept.seq == seq) {
            self.worker.reply(sequence, &kept.head, kept.body.iter().cloned());
            return Ok(true);
        }
        let expected = self.last_seq + 1;
        if seq == expected {
            return Ok(false);
        }
        Err(RequestError::new("pool_sequence", format!("received the batch number {seq}, expected {expected}"))
            .with_hint("repeat the last batch's number, or send the next one")
            .with_details(json!({"expected": expected, "received": seq})))
    }

    fn check_batch(
        &mut self,
        sequence: u32,
        op: &str,
        head: &[u8],
        request: &request::Batch,
        body: &mut Vec<u8>,
    ) -> Result<Box<Batch>, RequestError> {
        self.require_layout(op)?;
        let rows = self.select(request.rows.as_deref())?;
        plain_body(body).map_err(|fault| invalid_body(&fault))?;
        let work = match op {
            "step" => self.step_work(head, request.offset, rows.len(), body)?,
            "reset" => self.reset_work(head, request.offset, rows.len(), body)?,
            _ => self.call_work(head, request.offset, rows.len(), body)?,
        };
        let message = Message { encoding: request.encoding, work, rows, body: std::mem::take(body) };
        self.check_vector(&message)?;
        if op == "reset" {
            self.take_new_seed(head)?;
        }
        Ok(Box::new(Batch::new(sequence, request.seq, message)))
    }

    /// Nothing is asked for before the form of its answer is fixed.
    pub(crate) fn require_layout(&self, op: &str) -> Result<(), RequestError> {
        if self.layout.is_some() {
            return Ok(());
        }
        Err(RequestError::new("conflict", format!("received {op} before layout")).with_hint("send layout first"))
    }

    /// The pool's new seed, if a reset brings one: every row's episodes are counted anew.
    pub(crate) fn take_new_seed(&mut self, head: &[u8]) -> Result<(), RequestError> {
        if let Some(seed) = parse::<request::Reset>(head)?.seed {
            self.pool_seed = seed;
            for row in &mut self.rows {
                row.episode = 0;
                row.reseeds = 0;
            }
        }
        Ok(())
    }

    /// Starts to work on a batch that was checked.
    pub(crate) fn run_batch(&mut self, mut batch: Box<Batch>) {
        self.kept = None;
        self.last_seq = batch.seq;
        batch.late_before = self.counters.late_replies;
        if self.steps_all(&batch) {
            for number in 0..self.packs.len() {
                if !self.is_quiet(number) {
                    self.packs[number].rows.clone().for_each(|local| self.prepare_row(local, local));
                }
            }
        } else {
            batch.message.rows.iter().enumerate().for_each(|(slot, local)| self.prepare_row(*local, slot));
        }
        self.batch = Some(batch);
        self.dispatch();
    }

    fn prepare_row(&mut self, local: usize, slot: usize) {
        let row = &mut self.rows[local];
        row.slot = slot;
        row.task = Task::None;
        row.info.clear();
        row.result.clear();
    }

    /// Local numbers of the selected rows.
    pub(crate) fn select(&self, rows: Option<&[u32]>) -> Result<Vec<usize>, RequestError> {
        let Some(rows) = rows else {
            return Ok((0..self.rows.len()).collect());
        };
        let (first, end) = (self.settings.first, self.settings.first + self.settings.count);
        let ascending = rows.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = rows.iter().all(|row| (first..end).contains(row));
        if ascending && inside {
            return Ok(rows.iter().map(|row| (row - first) as usize).collect());
        }
        Err(RequestError::invalid(format!("received rows that are not ascending numbers from {first} to {}", end - 1)))
    }

    /// What a step request asks for.
    pub(crate) fn step_work(
        &self,
        head: &[u8],
        offset: usize,
        count: usize,
        body: &[u8],
    ) -> Result<Work, RequestError> {
        let (dtype, shape) = match parse::<request::Step>(head)?.actions {
            request::Actions::Json => {
                let place = items::member(body, b"actions").map_err(|fault| invalid_body(&fault))?;
                let place = place.ok_or_else(|| RequestError::invalid("received a step without actions"))?;
                return Ok(Work::Step(Actions::Json(slice_of(body, &place, offset, count, "actions")?)));
            }
            request::Actions::Array { dtype, shape } => (dtype, shape),
        };
        let dtype = Dtype::parse(dtype.as_bytes()).map_err(|fault| RequestError::invalid(fault.to_string()))?;
        let bytes = shape.iter().try_fold(dtype.size, |product, length| product.checked_mul(*length));
        let expected = bytes.and_then(|bytes| bytes.checked_mul(count));
        match (bytes, expected) {
            (Some(bytes), Some(expected)) if dtype.is_numeric() && expected == body.len() => {
                Ok(Work::Step(Actions::Array(ActionArray { dtype, shape, bytes })))
            }
            _ => Err(RequestError::invalid(format!(
                "received {} bytes of actions for {count} rows, expected {expected:?} of the numeric dtype {} and the \
                 shape {shape:?}",
                body.len(),
                dtype.code()
            ))),
        }
    }
}

/// A client's JSON as it may be cut into lines: bare NaN is tagged. A body that is a buffer of actions stays as it is.
pub(crate) fn plain_body(body: &mut Vec<u8>) -> Result<(), Fault> {
    if body.first() != Some(&b'{') {
        return Ok(());
    }
    let mut bare = false;
    if items::members(body, |_, (_, found): Span| bare |= found.bare).is_ok() && bare {
        let mut plain = Vec::with_capacity(body.len() + 64);
        rewrite(body, &[], Arrays::Tagged, &mut plain)?;
        *body = plain;
    }
    Ok(())
}

/// The client's text is not what its head says.
pub(crate) fn invalid_body(fault: &Fault) -> RequestError {
    RequestError::invalid(format!("the body of the request: {fault}"))
}

/// Where this shard's items of a client's list stand.
pub(crate) fn slice_of(
    body: &[u8],
    place: &Range<usize>,
    offset: usize,
    count: usize,
    name: &str,
) -> Result<Vec<Range<usize>>, RequestError> {
    if !items::is_list(body, place) {
        return Err(RequestError::invalid(format!("received {name} that is no list, expected one item a row")));
    }
    let mut places = Vec::new();
    items::items(body, place, &mut places).map_err(|fault| RequestError::invalid(format!("{name}: {fault}")))?;
    if places.len() < offset + count {
        return Err(RequestError::invalid(format!(
            "received {} {name}, expected at least {} (rows {offset} to {} of the request are this shard's)",
            places.len(),
            offset + count,
            offset + count
        )));
    }
    places.truncate(offset + count);
    places.drain(..offset);
    Ok(places)
}

/// A free-form member: absent, one for all, or a list of `total` of which this shard takes its part.
pub(crate) fn spread(
    body: &[u8],
    name: &str,
    is_list: impl Fn(&Range<usize>) -> bool,
    total: Option<usize>,
    offset: usize,
    count: usize,
) -> Result<Spread, RequestError> {
    if body.is_empty() {
        return Ok(Spread::Nothing);
    }
    let place = items::member(body, name.as_bytes()).map_err(|fault| invalid_body(&fault))?;
    let Some(place) = place else {
        return Ok(Spread::Nothing);
    };
    if !is_list(&place) {
        return Ok(Spread::One(place));
    }
    let mut places = Vec::new();
    items::items(body, &place, &mut places).map_err(|fault| invalid_body(&fault))?;
    if let Some(total) = total.filter(|total| *total != places.len()) {
        return Err(RequestError::invalid(format!("received {} {name}, expected {total}, one a row", places.len())));
    }
    Ok(Spread::Each(slice_of(body, &place, offset, count, name)?))
}
