//! The worker's channel: frames in, frames out, requests and their errors.

pub mod error;
pub mod frame;
pub mod reader;
pub mod request;
pub mod writer;
