//! Resource limits of a child, set between fork and exec.

use std::io;

use super::identity::Limits;
use super::sys;

#[cfg(target_os = "linux")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_os = "linux"))]
type Resource = libc::c_int;

/// Sets what `limits` names, and no core files. File size stays free: the workspace has a quota.
pub(super) fn apply(limits: &Limits) -> io::Result<()> {
    lower(libc::RLIMIT_CORE, 0)?;
    if let Some(bytes) = limits.address_space_bytes {
        lower(libc::RLIMIT_AS, bytes)?;
    }
    if let Some(count) = limits.processes {
        lower(libc::RLIMIT_NPROC, count)?;
    }
    if let Some(count) = limits.descriptors {
        lower(libc::RLIMIT_NOFILE, count)?;
    }
    Ok(())
}

/// Sets soft and hard, never above the hard limit there is: raising needs a right nobody here has.
fn lower(resource: Resource, value: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: limit outlives both calls.
    unsafe {
        sys::check(libc::getrlimit(resource, &raw mut limit))?;
        limit.rlim_max = limit.rlim_max.min(value);
        limit.rlim_cur = limit.rlim_max;
        sys::check(libc::setrlimit(resource, &raw const limit))?;
    }
    Ok(())
}
