//! Whole folders as tar.

mod beneath;
mod budget;
mod extract;
mod pack;
