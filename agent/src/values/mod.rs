//! Values from environments and clients: checked, measured, cast and spliced, never built into trees on the step path.

pub mod action;
pub mod array;
pub mod dtype;
pub mod elements;
pub mod fault;
pub mod fit;
pub mod items;
pub mod layout;
pub mod lists;
pub mod numbers;
pub mod packed;
pub mod propose;
pub mod reply;
pub mod rewrite;
pub mod scan;
pub mod stack;
pub mod strings;
mod tags;
