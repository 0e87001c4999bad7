//! Files inside the machine, worked on by threads that are the user the request names.

mod change;
mod entry;
pub mod errors;
mod list;
mod path;
mod read;
mod write;

pub use path::check as check_path;
