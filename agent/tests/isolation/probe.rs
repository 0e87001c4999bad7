//! Builds the example `isolation_probe` and says where it is: a test of this crate alone would not build it.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

static PROBE: OnceLock<PathBuf> = OnceLock::new();

pub fn probe() -> PathBuf {
    PROBE.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--quiet", "--example", "isolation_probe", "--message-format", "json", "--profile", profile])
        .output()
        .expect("cargo runs");
    let messages = String::from_utf8_lossy(&output.stdout);
    let built = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .next_back();
    built.unwrap_or_else(|| {
        panic!("cargo did not build the probe: {messages} {}", String::from_utf8_lossy(&output.stderr))
    })
}
