//! Waiting for many descriptors at once.

mod poller;
mod token;

pub use poller::{Poller, Readiness};
pub use token::{Source, Token};
