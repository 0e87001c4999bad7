//! Brings the loopback interface up in a fresh network namespace.

use std::io;

/// Does nothing where it is up already; else it needs CAP_NET_ADMIN over the network namespace.
#[cfg(target_os = "linux")]
pub(super) fn bring_up() -> io::Result<()> {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    let check = |result: libc::c_int| match result {
        -1 => Err(io::Error::last_os_error()),
        other => Ok(other),
    };
    // SAFETY: the request holds a short name and outlives the calls; the socket is open and ours.
    unsafe {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        let socket = OwnedFd::from_raw_fd(check(libc::socket(libc::AF_INET, kind, 0))?);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
            *place = byte.cast_signed();
        }
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request))?;
        let up = libc::IFF_UP as libc::c_short;
        if request.ifr_ifru.ifru_flags & up != 0 {
            return Ok(());
        }
        request.ifr_ifru.ifru_flags |= up;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)).map(drop)
    }
}

/// Loopback is always up where there are no network namespaces.
#[cfg(not(target_os = "linux"))]
pub(super) fn bring_up() -> io::Result<()> {
    Ok(())
}
