//! One environment: its process, its stream of lines, its error, its log.

pub mod error;
pub mod log;
pub mod process;
pub mod row;
pub mod seeds;
pub mod stream;
