//! The program's own edges: what it refuses, and what it leaves to read when it cannot start a machine.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("sandpool-shim-{}-{name}", std::process::id()));
    fs::create_dir_all(folder.join("bundle")).unwrap();
    let made = Command::new("mkfifo").args(["in", "out", "err"].map(|name| folder.join(name))).status().unwrap();
    assert!(made.success());
    folder
}

fn shim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sandpool-shim")).args(arguments).output().unwrap()
}

fn settings(folder: &Path, runtime: &str) -> Value {
    json!({
        "id": "m00000000000000000000", "user_namespace": false, "uids": null, "environ": {}, "stop_ms": 100,
        "runtime": {"kind": "runc", "path": runtime, "root": folder.join("runtime"), "flags": []},
        "bundle": folder.join("bundle"),
    })
}

#[test]
fn wrong_arguments_are_told_with_what_was_expected() {
    let output = shim(&[]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("expected <folder of a machine>"));
}

#[test]
fn settings_that_cannot_be_read_are_named() {
    let folder = folder("settings");
    fs::write(folder.join("shim.json"), "{").unwrap();
    let output = shim(&[folder.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("shim.json"), "{said}");
    fs::remove_dir_all(folder).unwrap();
}

/// Mount namespaces need root; without it the reason is another one, and told the same way.
#[test]
fn a_runtime_that_fails_becomes_the_exit_with_its_words() {
    let folder = folder("fails");
    let runtime = folder.join("runtime.sh");
    fs::write(&runtime, "#!/bin/sh\necho the runtime says no >&2\nexit 3\n").unwrap();
    Command::new("chmod").arg("755").arg(&runtime).status().unwrap();
    fs::write(folder.join("shim.json"), settings(&folder, runtime.to_str().unwrap()).to_string()).unwrap();
    assert!(shim(&[folder.to_str().unwrap()]).status.success());
    let exit: Value = serde_json::from_slice(&fs::read(folder.join("exit.json")).unwrap()).unwrap();
    assert_eq!((&exit["started"], &exit["code"], &exit["signal"]), (&json!(false), &Value::Null, &Value::Null));
    // SAFETY: takes nothing.
    let expected = if unsafe { libc::geteuid() } == 0 { "the runtime says no" } else { "Operation not permitted" };
    assert!(exit["stderr"].as_str().unwrap().contains(expected), "{exit}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_second_shim_on_a_machine_leaves_it_alone() {
    let folder = folder("second");
    let holder = fs::File::create(folder.join("shim.lock")).unwrap();
    holder.lock().unwrap();
    let output = shim(&[folder.to_str().unwrap(), "--adopt"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another shim holds this machine"));
    assert!(!folder.join("shim.pid").exists());
    fs::remove_dir_all(folder).unwrap();
}
