//! A template as the environment protocol describes one, and its forks, which are templates of further
//! forks: the order of calls is the contract's.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::mem;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

use serde_json::{Value, json};

use crate::attempts;
use crate::raw::{address, call, check, exit, fork, make_effective, mount};

/// Hides the ambient capabilities, then answers fork messages until the channel ends.
pub fn serve(channel: RawFd) -> ! {
    let clear = libc::PR_CAP_AMBIENT_CLEAR_ALL;
    // SAFETY: these options take numbers only.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, clear, 0, 0, 0) };
    make_effective(false, true).expect("capabilities");
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    answer_forks(channel)
}

/// Descriptors of a message: the child's channel, its stderr, and for a live fork its three folders.
fn answer_forks(channel: RawFd) -> ! {
    loop {
        let Some((message, descriptors)) = receive(channel) else { exit(0) };
        if fork().expect("fork") != 0 {
            for fd in descriptors {
                close(fd);
            }
            continue;
        }
        // As fork_orphan: the parent goes, process 1 becomes the child's parent.
        if fork().expect("fork") != 0 {
            exit(0);
        }
        close(channel);
        let (own, stderr) = (descriptors[0], descriptors[1]);
        if let Err(error) = become_row(&message, &descriptors[2..]) {
            send(own, &json!({"id": 0, "error": error.to_string()}));
            exit(1);
        }
        redirect(stderr);
        send(own, &json!({"id": 0, "ok": true, "pid": std::process::id()}));
        act(&message, own);
    }
}

fn become_row(message: &Value, folders: &[RawFd]) -> io::Result<()> {
    let id = message["uid"].as_u64().expect("uid") as libc::uid_t;
    if let Some(memory) = message["memory"].as_str() {
        fs::write(format!("{memory}/cgroup.procs"), "0")?;
    }
    make_effective(true, true)?;
    // SAFETY: no list is read as its length is 0; the others take numbers only.
    unsafe {
        check(libc::setgroups(0, ptr::null()).into())?;
        check(libc::setresgid(id, id, id).into())?;
        check(libc::setresuid(id, id, id).into())?;
        check(libc::unshare(libc::CLONE_NEWNS).into())?;
    }
    let workspace = message["workspace"].as_str().expect("workspace");
    let places = [("workspace", c"/workspace"), ("tmp", c"/tmp"), ("shm", c"/dev/shm")];
    let seal = libc::MS_BIND | libc::MS_REMOUNT | libc::MS_NOSUID | libc::MS_NODEV;
    for (index, (folder, target)) in places.into_iter().enumerate() {
        if let Some(&fd) = folders.get(index) {
            // SAFETY: the target is a C string.
            check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }.into())?;
            let here = libc::AT_FDCWD.into();
            call(libc::SYS_move_mount, [fd.into(), address(c""), here, address(target), 4])?;
            close(fd);
        } else {
            let source = CString::new(format!("{workspace}/{folder}")).expect("no NUL");
            mount(&source, target, c"", libc::MS_BIND)?;
        }
        mount(c"none", target, c"", seal)?;
    }
    // SAFETY: the target is a C string. In a live fork it is gone already.
    unsafe { libc::umount2(c"/run/ws".as_ptr(), libc::MNT_DETACH) };
    make_effective(false, message["branching"] == true)?;
    let processes = message["rlimits"]["nproc"].as_u64().expect("nproc");
    let limit = libc::rlimit { rlim_cur: processes, rlim_max: processes };
    // SAFETY: limit outlives the call; the others take numbers only.
    unsafe {
        check(libc::setrlimit(libc::RLIMIT_NPROC, &raw const limit).into())?;
        check(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0).into())?;
        libc::setsid();
    }
    std::env::set_current_dir("/workspace")
}

fn redirect(stderr: RawFd) {
    // SAFETY: takes numbers only.
    unsafe {
        libc::dup2(stderr, 1);
        libc::dup2(stderr, 2);
    }
    close(stderr);
}

/// What the test asked for: run a program, try things with the capabilities regained, or go on forking.
fn act(message: &Value, channel: RawFd) -> ! {
    let words: Vec<&str> = message["then"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match words.as_slice() {
        ["attempt", names @ ..] => {
            make_effective(true, true).expect("capabilities");
            println!("{}", attempts::run(names));
        }
        ["serve"] => answer_forks(channel),
        ["exec", program, arguments @ ..] => {
            let home = [("HOME", "/workspace"), ("TMPDIR", "/tmp")];
            let error = Command::new(program).args(arguments).envs(home).exec();
            eprintln!("cannot execute {program}: {error}");
        }
        other => panic!("{other:?} is nothing a fork does"),
    }
    let _ = io::stdout().flush();
    exit(0)
}

fn receive(channel: RawFd) -> Option<(Value, Vec<RawFd>)> {
    let mut text = vec![0_u8; 65536];
    let mut control = [0_u64; 64];
    // SAFETY: all buffers outlive the call and are of the stated sizes.
    unsafe {
        let mut part = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let received = libc::recvmsg(channel, &raw mut message, 0);
        if received <= 0 {
            return None;
        }
        let mut descriptors = Vec::new();
        if let Some(header) = libc::CMSG_FIRSTHDR(&raw const message).as_ref() {
            let bytes = header.cmsg_len - libc::CMSG_LEN(0) as usize;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            descriptors = (0..bytes / 4).map(|index| data.add(index).read_unaligned()).collect();
        }
        text.truncate(received as usize);
        Some((serde_json::from_slice(&text).expect("a message"), descriptors))
    }
}

fn send(channel: RawFd, message: &Value) {
    let line = format!("{message}\n");
    // SAFETY: the buffer is valid for its length.
    unsafe { libc::write(channel, line.as_ptr().cast(), line.len()) };
}

fn close(fd: RawFd) {
    // SAFETY: the probe owns the descriptor and does not use it again.
    unsafe { libc::close(fd) };
}
