//! Environments: packs of rows that share a process, its stream of lines, its log, and each row's episode and error.

pub mod error;
pub mod log;
pub mod pack;
pub mod process;
pub mod row;
pub mod seeds;
pub mod stream;
pub mod vector;
