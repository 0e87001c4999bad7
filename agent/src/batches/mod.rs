//! Batches: which rows, what each is sent, and the columns of the reply.

pub(crate) mod batch;
pub(crate) mod begin;
mod call;
pub(crate) mod columns;
mod finish;
pub(crate) mod kept;
pub(crate) mod outcomes;
mod reply;
mod reset;
mod step;
