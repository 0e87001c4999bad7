//! Descriptors and proof of the sender over unix sockets.

use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::ptr;

#[cfg(target_os = "linux")]
use super::sys::check;

/// The kernel's own bound on one message.
const MOST_DESCRIPTORS: usize = 253;

/// Room for the control message, aligned as its header must be.
type Control = [u64; 160];

/// Who wrote a message, by the kernel's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Process that wrote it.
    pub pid: i32,
    /// Its real uid.
    pub uid: u32,
}

/// Sends `bytes` with `descriptors` attached to the first byte. Returns how many bytes were taken; if any,
/// the descriptors went along and the rest is sent without them. Never raises SIGPIPE.
pub fn send_descriptors(socket: RawFd, bytes: &[u8], descriptors: &[RawFd]) -> io::Result<usize> {
    if bytes.is_empty() || descriptors.len() > MOST_DESCRIPTORS {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{} bytes with {} descriptors; expected at least one byte and at most {MOST_DESCRIPTORS} descriptors",
                bytes.len(),
                descriptors.len()
            ),
        ));
    }
    let mut control: Control = [0; 160];
    let mut part = slice_of(bytes.as_ptr().cast_mut(), bytes.len());
    let size = mem::size_of_val(descriptors) as u32;
    // SAFETY: control is aligned and holds MOST_DESCRIPTORS descriptors; everything outlives the call.
    unsafe {
        let mut message = message_of(&mut part);
        if !descriptors.is_empty() {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size) as _;
            let data = libc::CMSG_DATA(header).cast::<RawFd>();
            ptr::copy_nonoverlapping(descriptors.as_ptr(), data, descriptors.len());
        }
        let sent = libc::sendmsg(socket, &raw const message, NO_SIGNAL);
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Asks the kernel to attach the sender to every message received on `socket`. Linux; elsewhere nothing.
pub fn announce_sender(socket: RawFd) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let on: libc::c_int = 1;
        let size = mem::size_of_val(&on) as libc::socklen_t;
        // SAFETY: the option is an int that outlives the call.
        check(unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_PASSCRED, (&raw const on).cast(), size) })?;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
    Ok(())
}

/// Reads like `recv` and tells who wrote it, after `announce_sender`. Descriptors that came along are
/// closed unseen.
pub fn receive_with_sender(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<Sender>)> {
    // Room for the credentials only, so that the kernel itself drops attached descriptors.
    let mut control = [0u64; 4];
    let mut part = slice_of(buffer.as_mut_ptr(), buffer.len());
    // SAFETY: control is aligned and of the stated size; everything outlives the call.
    unsafe {
        let mut message = message_of(&mut part);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control) as _;
        let received = libc::recvmsg(socket, &raw mut message, CLOSE_ON_EXEC);
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        Ok((received, sender_of(&message)))
    }
}

#[cfg(target_os = "linux")]
const NO_SIGNAL: libc::c_int = libc::MSG_NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const NO_SIGNAL: libc::c_int = 0;
#[cfg(target_os = "linux")]
const CLOSE_ON_EXEC: libc::c_int = libc::MSG_CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const CLOSE_ON_EXEC: libc::c_int = 0;

/// # Safety
/// The message and its control buffer come from a `recvmsg` that succeeded.
#[cfg(target_os = "linux")]
unsafe fn sender_of(message: &libc::msghdr) -> Option<Sender> {
    // SAFETY: the header is checked to be credentials before its data is read as such, unaligned.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message).as_ref()?;
        if header.cmsg_level != libc::SOL_SOCKET || header.cmsg_type != libc::SCM_CREDENTIALS {
            return None;
        }
        let found = libc::CMSG_DATA(header).cast::<libc::ucred>().read_unaligned();
        Some(Sender { pid: found.pid, uid: found.uid })
    }
}

/// # Safety
/// None needed; the signature follows the other system's.
#[cfg(not(target_os = "linux"))]
unsafe fn sender_of(_: &libc::msghdr) -> Option<Sender> {
    None
}

fn slice_of(start: *mut u8, length: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast(), iov_len: length }
}

fn message_of(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message
}
