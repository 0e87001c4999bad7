//! Pseudoterminals, always of the machine's own devpts and by descriptor.

use super::users::User;
use serde::Deserialize;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Size of a terminal.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

/// Both ends of a new terminal that belongs to the user: master, then the program's.
pub fn open(size: &Size, user: &User) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: plain calls; each new descriptor belongs to nobody else.
    unsafe {
        let master = own(libc::open(c"/dev/ptmx".as_ptr(), flags))?;
        let unlocked: libc::c_int = 0;
        if libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) < 0 {
            return Err(io::Error::last_os_error());
        }
        let slave = match own(libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags)) {
            Ok(slave) => slave,
            Err(_) => open_by_number(&master, flags)?,
        };
        // The user's programs may open it by name; where it stays root's they only use the descriptors they got.
        let _ = crate::system::give(slave.as_raw_fd(), user.uid, user.gid);
        libc::fchmod(slave.as_raw_fd(), 0o620);
        resize(&master, size)?;
        Ok((master, slave))
    }
}

/// Tells the kernel, and through it the program, a new size.
pub fn resize(master: &OwnedFd, size: &Size) -> io::Result<()> {
    let size = libc::winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the struct outlives the call.
    if unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// For kernels that cannot open the peer by descriptor.
fn open_by_number(master: &OwnedFd, flags: libc::c_int) -> io::Result<OwnedFd> {
    let mut number: libc::c_uint = 0;
    // SAFETY: the number outlives the call.
    if unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTN, &raw mut number) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let path = std::ffi::CString::new(format!("/dev/pts/{number}")).map_err(io::Error::other)?;
    // SAFETY: the path ends with a NUL; the new descriptor belongs to nobody else.
    unsafe { own(libc::open(path.as_ptr(), flags)) }
}

/// # Safety
/// The descriptor, if it is one, belongs to nobody else.
unsafe fn own(descriptor: libc::c_int) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
