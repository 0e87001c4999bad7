//! The `sandpool-agent` program.

fn main() {}
