//! The Sandpool agent: process 1 of a shard. One thread and one event loop start a shard's
//! environments, give each its line of a batch, and join the answers into columns.
//!
//! `docs/internals/agent-channel.md` is the contract with the worker,
//! `docs/environment-protocol.md` the one with an environment.

pub mod isolation;
pub mod relay;
