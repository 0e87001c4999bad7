//! Copies of live environments in real containers: the agent as process 1, the Python helper as the environment.
//!
//! Needs root, runc, and memory cgroups of version 1.
#![cfg(target_os = "linux")]

#[path = "../isolation/bundle.rs"]
#[allow(dead_code)]
mod bundle;
mod contained;
mod files;
#[path = "../harness/mod.rs"]
mod harness;
mod identities;
mod lives;
