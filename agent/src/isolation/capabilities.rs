//! Capability sets, changed with bare system calls (no allocation: used between fork and exec).

use std::io;

use super::sys::check;

/// Bit set of capability numbers.
pub(super) type Set = u64;

pub(super) const NONE: Set = 0;
const CHOWN: Set = 1 << 0;
const DAC_OVERRIDE: Set = 1 << 1;
const FOWNER: Set = 1 << 3;
const KILL: Set = 1 << 5;
const SETGID: Set = 1 << 6;
const SETUID: Set = 1 << 7;
const SETPCAP: Set = 1 << 8;
const SYS_PTRACE: Set = 1 << 19;
const SYS_ADMIN: Set = 1 << 21;

/// What a template keeps, to give its forks their identity.
pub(super) const TEMPLATE: Set = SYS_ADMIN | SETUID | SETGID;

/// What the agent must hold, with the names the worker's container configuration uses.
const AGENT: &[(Set, &str)] = &[
    (CHOWN, "CAP_CHOWN"),
    (DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
    (FOWNER, "CAP_FOWNER"),
    (KILL, "CAP_KILL"),
    (SETGID, "CAP_SETGID"),
    (SETUID, "CAP_SETUID"),
    (SETPCAP, "CAP_SETPCAP"),
    (SYS_PTRACE, "CAP_SYS_PTRACE"),
    (SYS_ADMIN, "CAP_SYS_ADMIN"),
];

const VERSION_3: u32 = 0x2008_0522;
const LAST_CAPABILITY: u32 = 40;

const SECBIT_NOROOT: libc::c_ulong = 1 << 0;
const SECBIT_NOROOT_LOCKED: libc::c_ulong = 1 << 1;
const SECBIT_NO_CAP_AMBIENT_RAISE: libc::c_ulong = 1 << 6;
const SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED: libc::c_ulong = 1 << 7;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// The kernel splits each set into two words.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Word {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Names of what the agent needs and does not hold.
pub(super) fn missing() -> io::Result<Vec<&'static str>> {
    let mut words = [Word::default(); 2];
    let mut header = Header { version: VERSION_3, pid: 0 };
    // SAFETY: version 3 fills two words; header and words outlive the call.
    unsafe {
        let result = libc::syscall(libc::SYS_capget, &raw mut header, words.as_mut_ptr());
        check(result as libc::c_int)?;
    }
    let held = Set::from(words[0].effective) | Set::from(words[1].effective) << 32;
    Ok(AGENT.iter().filter(|(capability, _)| held & capability == 0).map(|(_, name)| *name).collect())
}

/// Keeps permitted capabilities across the change from uid 0; exec ends it.
pub(super) fn keep_across_setuid() -> io::Result<()> {
    prctl(libc::PR_SET_KEEPCAPS, 1, 0)
}

/// Leaves a template exactly `TEMPLATE`, also across its exec, and locks what could bring more back.
pub(super) fn become_template() -> io::Result<()> {
    set(TEMPLATE | SETPCAP, TEMPLATE)?;
    for number in 0..=LAST_CAPABILITY {
        if TEMPLATE & (1 << number) != 0 {
            let raise = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
            prctl(libc::PR_CAP_AMBIENT, raise, number.into())?;
        }
    }
    limit_bounding(TEMPLATE)?;
    lock_root_out()?;
    set(TEMPLATE, TEMPLATE)
}

/// Empties the bounding set and locks; must run while SETPCAP is still held, before the uid changes.
pub(super) fn forbid_all() -> io::Result<()> {
    limit_bounding(NONE)?;
    lock_root_out()
}

/// Empties every set of the calling process.
pub(super) fn drop_all() -> io::Result<()> {
    set(NONE, NONE)
}

/// From here on uid 0 is a number like any other, and no ambient capability can be raised.
fn lock_root_out() -> io::Result<()> {
    let bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    match prctl(libc::PR_SET_SECUREBITS, bits, 0) {
        // gVisor's kernel knows only KEEP_CAPS. What remains there: no program gains from its file's bits, the bounding
        // set is limited, and the filter keeps uid 0 out of reach.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) && gains_nothing_by_exec() => Ok(()),
        other => other,
    }
}

fn gains_nothing_by_exec() -> bool {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 }
}

fn limit_bounding(kept: Set) -> io::Result<()> {
    for number in 0..=LAST_CAPABILITY {
        if kept & (1 << number) != 0 {
            continue;
        }
        match prctl(libc::PR_CAPBSET_DROP, number.into(), 0) {
            // A kernel that knows fewer capabilities.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            other => other?,
        }
    }
    Ok(())
}

fn set(permitted: Set, inheritable: Set) -> io::Result<()> {
    let word = |shift: u32| Word {
        effective: (permitted >> shift) as u32,
        permitted: (permitted >> shift) as u32,
        inheritable: (inheritable >> shift) as u32,
    };
    let words = [word(0), word(32)];
    let mut header = Header { version: VERSION_3, pid: 0 };
    // SAFETY: version 3 reads two words; header and words outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, words.as_ptr()) };
    check(result as libc::c_int).map(drop)
}

fn prctl(option: libc::c_int, first: libc::c_ulong, second: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the options used here take numbers only.
    check(unsafe { libc::prctl(option, first, second, 0, 0) }).map(drop)
}
