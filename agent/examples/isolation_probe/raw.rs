//! The few system calls the probe's roles share.

use std::ffi::CStr;
use std::io;
use std::ptr;

pub fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Any call that takes numbers; strings are passed as their address.
pub fn call(number: libc::c_long, arguments: [libc::c_long; 5]) -> io::Result<libc::c_long> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the probe passes numbers and addresses of C strings that outlive the call.
    check(unsafe { libc::syscall(number, a, b, c, d, e) })
}

pub fn address(text: &CStr) -> libc::c_long {
    text.as_ptr() as libc::c_long
}

pub fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: all strings outlive the call, and there are no options.
    let result = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, ptr::null()) };
    check(result.into()).map(drop)
}

pub fn fork() -> io::Result<i32> {
    // SAFETY: the probe has one thread in every role that forks.
    check(unsafe { libc::fork() }.into()).map(|pid| pid as i32)
}

pub fn exit(code: i32) -> ! {
    // SAFETY: does not return.
    unsafe { libc::_exit(code) }
}

pub fn pause() -> ! {
    loop {
        // SAFETY: takes no argument.
        unsafe { libc::pause() };
    }
}

/// Makes everything permitted effective, or nothing; nothing stays inheritable.
pub fn make_effective(all: bool, keep_permitted: bool) -> io::Result<()> {
    let mut header = [0x2008_0522_u32, 0];
    let mut words = [0_u32; 6];
    // SAFETY: version 3 uses two words of three sets each.
    unsafe {
        let get = libc::syscall(libc::SYS_capget, header.as_mut_ptr(), words.as_mut_ptr());
        check(get)?;
        for place in [0, 3] {
            let kept = if keep_permitted { words[place + 1] } else { 0 };
            words[place] = if all { kept } else { 0 };
            words[place + 1] = kept;
            words[place + 2] = 0;
        }
        check(libc::syscall(libc::SYS_capset, header.as_mut_ptr(), words.as_ptr())).map(drop)
    }
}
