//! Sockets to the machine's own loopback.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Begins to connect; `WouldBlock` never comes, as the socket is writable once the connection stands or is refused.
pub fn begin(port: u16, ipv6: bool) -> io::Result<OwnedFd> {
    let address: SocketAddr =
        if ipv6 { (Ipv6Addr::LOCALHOST, port).into() } else { (Ipv4Addr::LOCALHOST, port).into() };
    let family = if ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    // SAFETY: the new descriptor belongs to nobody else.
    let socket = unsafe {
        let socket = libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0);
        if socket < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(socket)
    };
    match connect(&socket, &address) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket),
    }
}

fn connect(socket: &OwnedFd, address: &SocketAddr) -> io::Result<()> {
    let port = address.port().to_be();
    // SAFETY: all zero is valid for both structs, which outlive the calls.
    let result = unsafe {
        match address {
            SocketAddr::V4(address) => {
                let mut name: libc::sockaddr_in = std::mem::zeroed();
                name.sin_family = libc::AF_INET as u16;
                name.sin_port = port;
                name.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                libc::connect(socket.as_raw_fd(), (&raw const name).cast(), size_of_val(&name) as u32)
            }
            SocketAddr::V6(address) => {
                let mut name: libc::sockaddr_in6 = std::mem::zeroed();
                name.sin6_family = libc::AF_INET6 as u16;
                name.sin6_port = port;
                name.sin6_addr.s6_addr = address.ip().octets();
                libc::connect(socket.as_raw_fd(), (&raw const name).cast(), size_of_val(&name) as u32)
            }
        }
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// How connecting went, once the socket is ready.
pub fn outcome(socket: i32) -> io::Result<()> {
    let mut error: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: both outlive the call.
    let asked =
        unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_ERROR, (&raw mut error).cast(), &raw mut size) };
    match (asked, error) {
        (0, 0) => Ok(()),
        (0, error) => Err(io::Error::from_raw_os_error(error)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// No more comes after what was written.
pub fn end_writing(socket: i32) {
    // SAFETY: takes numbers only.
    unsafe { libc::shutdown(socket, libc::SHUT_WR) };
}
