//! The Sandpool agent: process 1 of a shard. One thread and one event loop start a shard's
//! environments, give each its line of a batch, and join the answers into columns.
//!
//! `docs/internals/agent-channel.md` is the contract with the worker and with an environment.

mod batches;
mod branches;
pub mod channel;
mod event_loop;
pub mod isolation;
#[cfg(target_os = "linux")]
pub mod machine;
mod packs;
pub mod relay;
mod rows;
mod shard;
#[cfg(target_os = "linux")]
pub mod shim;
mod starts;
mod stream;
pub mod system;
pub mod values;

pub use shard::serve;
