//! Isolation in real containers. Each attack is an attempt on a canary, and each is also made without
//! isolation inside a throwaway container, where it must succeed: else the attempt proves nothing.
//!
//! Needs root and runc.
#![cfg(target_os = "linux")]

mod bundle;
mod files;
mod forks;
mod memory;
mod neighbours;
mod privileges;
mod probe;
mod processes;
mod python;
mod setup;
mod shard;
mod unisolated;
