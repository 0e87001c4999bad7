//! One instant: the agent is silent while the machine is written, and knows afterwards whether it is the source or a copy.

mod hooks;
mod identity;
mod quiesce;
mod thaw;

pub use identity::write_generation;
pub use quiesce::Quiet;
