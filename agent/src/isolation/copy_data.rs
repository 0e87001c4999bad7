//! What a copied file gets of the other one: its data without its holes, and its attributes.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, SeekFrom, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::fs::{chmodat, chownat, fchmod, fchown, fgetxattr, flistxattr, fsetxattr, ftruncate, futimens, utimensat};
use rustix::io::{Errno, pread, pwrite};

const BLOCK_BYTES: usize = 256 << 10;
const ATTRIBUTES_LIMIT_BYTES: usize = 64 << 10;

/// What may be copied, and what was.
pub(super) struct Budget {
    pub(super) bytes: u64,
    pub(super) limit_bytes: u64,
}

/// Copies the data of a file; false once the budget is used up. What was a hole is one afterwards.
pub(super) fn copy_data(
    source: impl AsFd,
    target: impl AsFd,
    size_bytes: u64,
    budget: &mut Budget,
) -> Result<bool, Errno> {
    ftruncate(&target, size_bytes)?;
    let mut at = 0;
    while at < size_bytes {
        let (start, end) = match next_data(source.as_fd(), at, size_bytes)? {
            Some(found) => found,
            None => break,
        };
        budget.bytes = budget.bytes.saturating_add(end - start);
        if budget.bytes > budget.limit_bytes {
            return Ok(false);
        }
        copy_range(source.as_fd(), target.as_fd(), start, end)?;
        at = end;
    }
    Ok(true)
}

/// The next data from `at` on; all of the rest where the file system does not tell.
fn next_data(source: BorrowedFd<'_>, at: u64, size_bytes: u64) -> Result<Option<(u64, u64)>, Errno> {
    let start = match rustix::fs::seek(source, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL) => return Ok(Some((at, size_bytes))),
        Err(error) => return Err(error),
    };
    let end = rustix::fs::seek(source, SeekFrom::Hole(start))?;
    Ok((start < size_bytes).then_some((start, end.min(size_bytes))))
}

fn copy_range(source: BorrowedFd<'_>, target: BorrowedFd<'_>, start: u64, end: u64) -> Result<(), Errno> {
    let (mut from, mut to) = (start, start);
    while from < end {
        let wanted = usize::try_from(end - from).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(source, Some(&mut from), target, Some(&mut to), wanted) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            // Between two file systems, or in a kernel without it.
            Err(Errno::XDEV | Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP) => {
                return copy_through_memory(source, target, from, end);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn copy_through_memory(source: BorrowedFd<'_>, target: BorrowedFd<'_>, start: u64, end: u64) -> Result<(), Errno> {
    let length = usize::try_from(end - start).unwrap_or(usize::MAX);
    let mut block = vec![0; length.min(BLOCK_BYTES)];
    let mut at = start;
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(block.len());
        let count = pread(source, &mut block[..wanted], at)?;
        if count == 0 {
            return Ok(());
        }
        let mut written = 0;
        while written < count {
            written += pwrite(target, &block[written..count], at + written as u64)?;
        }
        at += count as u64;
    }
    Ok(())
}

/// Owner, mode, the user's own attributes, and last the times.
pub(super) fn give_attributes(
    source: impl AsFd,
    target: impl AsFd,
    status: &Stat,
    owner: Option<(u32, u32)>,
) -> Result<(), Errno> {
    copy_user_attributes(source.as_fd(), target.as_fd())?;
    if let Some((uid, gid)) = owner {
        fchown(&target, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    fchmod(&target, Mode::from_raw_mode(status.st_mode))?;
    futimens(&target, &times(status))
}

/// The same for what is not opened.
pub(super) fn give_link_attributes(
    folder: BorrowedFd<'_>,
    name: &CStr,
    kind: FileType,
    status: &Stat,
    owner: Option<(u32, u32)>,
) -> Result<(), Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    if let Some((uid, gid)) = owner {
        chownat(folder, name, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), flags)?;
    }
    if kind != FileType::Symlink {
        // The tree is still nobody else's, so that nothing can take the name's place.
        chmodat(folder, name, Mode::from_raw_mode(status.st_mode), AtFlags::empty())?;
    }
    utimensat(folder, name, &times(status), flags)
}

fn copy_user_attributes(source: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut list = vec![0; ATTRIBUTES_LIMIT_BYTES];
    let length = match flistxattr(source, &mut list[..]) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
        other => other?,
    };
    let mut value = Vec::new();
    for name in list[..length].split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else {
            continue;
        };
        if name.to_bytes().starts_with(b"user.") {
            value.resize(ATTRIBUTES_LIMIT_BYTES, 0);
            let length = fgetxattr(source, name, &mut value[..])?;
            fsetxattr(target, name, &value[..length], XattrFlags::empty())?;
        }
    }
    Ok(())
}

fn times(status: &Stat) -> Timestamps {
    let time = |seconds: i64, nanoseconds: u64| Timespec { tv_sec: seconds, tv_nsec: nanoseconds.cast_signed() };
    Timestamps {
        last_access: time(status.st_atime, status.st_atime_nsec),
        last_modification: time(status.st_mtime, status.st_mtime_nsec),
    }
}
