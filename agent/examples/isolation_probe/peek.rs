//! A row with secrets, and a row that looks for them by every path there is.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use serde_json::{Value, json};

use crate::raw::pause;

/// Keeps `$SECRET` in a file, an open descriptor, the environment and memory.
pub fn be_victim() -> ! {
    let secret = std::env::var("SECRET").expect("SECRET");
    let home = std::env::var("HOME").expect("HOME");
    let path = format!("{home}/secret");
    fs::write(&path, &secret).expect("a file in the workspace");
    std::env::set_current_dir(&home).expect("the workspace");
    let file = File::open(&path).expect("the file");
    println!("{}", file.as_raw_fd());
    std::hint::black_box((&secret, &file));
    pause()
}

/// `peek <secret> <pid> <descriptor> <home> <workspace>`: which paths to the neighbour's secret worked.
pub fn look(words: &[&str]) -> Value {
    let [secret, pid, descriptor, home, workspace] = words else {
        panic!("{words:?}: expected secret, pid, descriptor, home and workspace");
    };
    let finds = |path: String| fs::read(path).is_ok_and(|bytes| contains(&bytes, secret.as_bytes()));
    json!({
        "workspace": finds(format!("{workspace}/workspace/secret")),
        "root": finds(format!("/proc/{pid}/root{home}/secret")),
        "cwd": finds(format!("/proc/{pid}/cwd/secret")),
        "descriptor": finds(format!("/proc/{pid}/fd/{descriptor}")),
        "environ": finds(format!("/proc/{pid}/environ")),
        "memory": memory_holds(pid, secret.as_bytes()),
        "listed": fs::exists(format!("/proc/{pid}")).unwrap_or(false),
        "own_file_is_the_neighbours": finds(format!("{home}/secret")) && *home == "/workspace",
    })
}

fn memory_holds(pid: &str, secret: &[u8]) -> bool {
    let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else {
        return false;
    };
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else {
        return false;
    };
    let regions = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        rest.starts_with("rw").then_some((start, end))
    });
    regions.into_iter().any(|(start, end)| {
        let mut bytes = vec![0; (end - start) as usize];
        memory.read_exact_at(&mut bytes, start).is_ok() && contains(&bytes, secret)
    })
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
