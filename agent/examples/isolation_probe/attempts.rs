//! System calls that must fail inside an environment. Each runs in a process of its own; the result is
//! its errno, 0 for success.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use serde_json::{Map, Value};

use crate::raw::{address, call, check, exit, fork, mount};

type Attempt = fn() -> io::Result<()>;

const ATTEMPTS: &[(&str, Attempt)] = &[
    ("remount_env_writable", || mount(c"none", c"/env", c"", libc::MS_REMOUNT | libc::MS_BIND)),
    ("mount_tmpfs", || mount(c"tmpfs", c"/tmp", c"tmpfs", libc::MS_NOSUID)),
    ("mount_proc", || mount(c"proc", c"/tmp", c"proc", 0)),
    ("mount_shared", || mount(c"none", c"/", c"", libc::MS_REC | libc::MS_SHARED)),
    ("mount_recursive_bind", || mount(c"/env", c"/tmp", c"", libc::MS_BIND | libc::MS_REC)),
    ("unmount_env", || number(libc::SYS_umount2, [address(c"/env"), 0, 0, 0, 0])),
    ("unshare_user", || unshare(libc::CLONE_NEWUSER)),
    ("unshare_user_and_mounts", || unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)),
    ("unshare_network", || unshare(libc::CLONE_NEWNET)),
    ("clone_user", clone_user),
    ("clone3_user", clone3_user),
    ("setns_uts", setns_uts),
    ("open_tree", || number(libc::SYS_open_tree, [libc::AT_FDCWD.into(), address(c"/env"), 1, 0, 0])),
    ("fsopen", || number(libc::SYS_fsopen, [address(c"tmpfs"), 0, 0, 0, 0])),
    ("mount_setattr", mount_setattr),
    ("move_mount_by_path", move_mount_by_path),
    ("become_root", || ids(0)),
    ("become_template", || ids(1000)),
    ("become_killer", || ids(9999)),
    ("become_group_root", || number(libc::SYS_setresgid, [0, 0, 0, 0, 0])),
    ("join_group_root", join_group_root),
    ("keyring", || number(libc::SYS_keyctl, [0, -3, 1, 0, 0])),
    ("write_to_env", || File::create("/env/written").map(drop)),
];

/// Tries each by name; `{"name": errno}`.
pub fn run(names: &[&str]) -> Value {
    let results: Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), attempt(name).into())).collect();
    results.into()
}

fn attempt(name: &str) -> i32 {
    let (_, attempt) =
        ATTEMPTS.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no attempt is called {name}"));
    let child = fork().expect("fork");
    if child == 0 {
        // So that a success leaves no trace for the next; who may not do this changes nothing anyway.
        let _ = unshare(libc::CLONE_NEWNS);
        let errno = attempt().err().map_or(0, |error| error.raw_os_error().unwrap_or(255));
        exit(errno);
    }
    let mut status = 0;
    // SAFETY: status outlives the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(libc::WIFEXITED(status), "{name} ended with wait status {status}");
    libc::WEXITSTATUS(status)
}

fn number(number: libc::c_long, arguments: [libc::c_long; 5]) -> io::Result<()> {
    call(number, arguments).map(drop)
}

fn unshare(flags: i32) -> io::Result<()> {
    number(libc::SYS_unshare, [flags.into(), 0, 0, 0, 0])
}

fn ids(uid: libc::c_long) -> io::Result<()> {
    number(libc::SYS_setresuid, [uid, uid, uid, 0, 0])
}

fn clone_user() -> io::Result<()> {
    let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
    if call(libc::SYS_clone, [flags.into(), 0, 0, 0, 0])? == 0 {
        exit(0);
    }
    Ok(())
}

fn clone3_user() -> io::Result<()> {
    let mut arguments = [0_u64; 8];
    arguments[0] = libc::CLONE_NEWUSER as u64;
    arguments[4] = libc::SIGCHLD as u64;
    let size = size_of_val(&arguments) as libc::c_long;
    let place = arguments.as_mut_ptr() as libc::c_long;
    if call(libc::SYS_clone3, [place, size, 0, 0, 0])? == 0 {
        exit(0);
    }
    Ok(())
}

fn setns_uts() -> io::Result<()> {
    let namespace = File::open("/proc/self/ns/uts")?;
    number(libc::SYS_setns, [namespace.as_raw_fd().into(), 0, 0, 0, 0])
}

/// Clears the read-only flag of `/env`.
fn mount_setattr() -> io::Result<()> {
    let attributes = [0_u64, 1, 0, 0];
    let size = size_of_val(&attributes) as libc::c_long;
    let place = attributes.as_ptr() as libc::c_long;
    number(libc::SYS_mount_setattr, [libc::AT_FDCWD.into(), address(c"/env"), 0, place, size])
}

fn move_mount_by_path() -> io::Result<()> {
    let here = libc::AT_FDCWD.into();
    number(libc::SYS_move_mount, [here, address(c"/env"), here, address(c"/tmp"), 0])
}

fn join_group_root() -> io::Result<()> {
    let groups = [0 as libc::gid_t];
    // SAFETY: the list outlives the call.
    check(unsafe { libc::setgroups(1, groups.as_ptr()) }.into()).map(drop)
}
