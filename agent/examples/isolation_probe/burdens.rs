//! Environments that use things up, or kill.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::raw::{exit, fork, pause};

pub fn run(words: &[&str]) {
    match words {
        ["sleep"] => announce_and_wait(),
        ["descriptors"] => println!("{}", json!(descriptors())),
        ["breed", most] => println!("{}", breed(number(most) as usize)),
        ["bomb"] => bomb(),
        ["fill", folder, most] => println!("{}", fill(Path::new(folder), number(most))),
        ["touch", folder, most] => println!("{}", touch(Path::new(folder), number(most))),
        ["hog", bytes] => hog(number(bytes) as usize),
        ["spin", milliseconds] => spin(Duration::from_millis(number(milliseconds))),
        ["kill_all"] => kill_all(),
        ["daemon"] => daemon(),
        ["setuid_child", program] => setuid_child(program),
        other => {
            eprintln!("isolation_probe: {other:?} is no role");
            std::process::exit(64);
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

fn announce_and_wait() -> ! {
    println!("ready");
    pause()
}

/// Open descriptors, without the one that lists them.
fn descriptors() -> Vec<i32> {
    let listed: Vec<i32> = fs::read_dir("/proc/self/fd")
        .expect("own descriptors")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let mut open: Vec<i32> =
        listed.into_iter().filter(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).is_ok()).collect();
    open.sort_unstable();
    open
}

/// Children that wait, until the limit or `most`; `{"processes", "errno"}` with this process counted.
fn breed(most: usize) -> serde_json::Value {
    let mut processes = 1;
    while processes < most {
        match fork() {
            Ok(0) => pause(),
            Ok(_) => processes += 1,
            Err(error) => return json!({"processes": processes, "errno": error.raw_os_error()}),
        }
    }
    json!({"processes": processes, "errno": 0})
}

/// Every process of it forks for ever and never waits.
fn bomb() -> ! {
    println!("ready");
    loop {
        if fork().is_err() {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

fn fill(folder: &Path, most: u64) -> serde_json::Value {
    let block = [7_u8; 4096];
    let mut file = File::create(folder.join("filled")).expect("a file in the workspace");
    let mut bytes = 0;
    while bytes < most {
        match file.write(&block) {
            Ok(written) => bytes += written as u64,
            Err(error) => return json!({"bytes": bytes, "errno": error.raw_os_error()}),
        }
    }
    json!({"bytes": bytes, "errno": 0})
}

fn touch(folder: &Path, most: u64) -> serde_json::Value {
    for files in 0..most {
        if let Err(error) = File::create(folder.join(format!("touched-{files}"))) {
            return json!({"files": files, "errno": error.raw_os_error()});
        }
    }
    json!({"files": most, "errno": 0})
}

/// Touches every page of that much memory, then waits; says how an allocation was refused.
fn hog(bytes: usize) {
    let mut held: Vec<u8> = Vec::new();
    if held.try_reserve_exact(bytes).is_err() {
        println!("refused");
        return;
    }
    held.resize(bytes, 1);
    println!("ready");
    std::hint::black_box(&held);
    pause()
}

/// Uses that much processor time.
fn spin(time: Duration) {
    loop {
        // SAFETY: all zero is a valid timespec, and it outlives the call.
        let used = unsafe {
            let mut used: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut used);
            Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
        };
        if used >= time {
            return;
        }
    }
}

/// What `pkill -9` and `kill -9 -1` do, and every number tried one by one.
fn kill_all() {
    let own = std::process::id().cast_signed();
    // SAFETY: takes numbers only.
    unsafe { libc::kill(-1, libc::SIGKILL) };
    for pid in (1..4096).filter(|&pid| pid != own) {
        // SAFETY: takes numbers only.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    println!("done");
}

/// Leaves a process behind that left session, group and parent, and ends itself.
fn daemon() {
    // SAFETY: takes no argument.
    let new_session = || unsafe { libc::setsid() };
    if fork().expect("fork") == 0 {
        new_session();
        if fork().expect("fork") == 0 {
            new_session();
            println!("{}", std::process::id());
            let _ = io::stdout().flush();
            pause();
        }
        exit(0);
    }
}

/// As an unprivileged user, runs a setuid program and prints what it says it is.
fn setuid_child(program: &str) {
    // SAFETY: takes a number only.
    if unsafe { libc::getuid() } == 0 {
        // SAFETY: takes numbers only.
        let dropped = unsafe { libc::setresuid(12345, 12345, 12345) };
        assert_eq!(dropped, 0, "{}", io::Error::last_os_error());
    }
    let output = std::process::Command::new(program).arg("whoami").output();
    print!("{}", String::from_utf8_lossy(&output.expect("the program").stdout));
}
