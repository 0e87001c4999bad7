//! Gives a tree to another range of ids: a saved disk has the ids of the range its machine had then.

use super::settings::Uids;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

/// Ids are handed out in ranges that start at a multiple of this.
const RANGE: u32 = 65_536;
const SET_ID_BITS: u32 = 0o6000;

/// Moves every id of the range that `root` itself has to the range `uids`. Nothing may change the tree meanwhile.
pub fn shift_tree(root: &Path, uids: Uids) -> io::Result<()> {
    let found = fs::symlink_metadata(root)?;
    let from = found.uid() / RANGE * RANGE;
    if from == uids.base {
        return Ok(());
    }
    shift(root, &found, from, uids)?;
    shift_below(root, from, uids)
}

/// Names are looked up below an open folder: a path could be longer than the kernel takes.
fn shift_below(folder: &Path, from: u32, uids: Uids) -> io::Result<()> {
    let opened: File = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(folder)?;
    let here = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    for entry in fs::read_dir(&here)? {
        let path = here.join(entry?.file_name());
        let found = fs::symlink_metadata(&path)?;
        shift(&path, &found, from, uids)?;
        if found.is_dir() {
            shift_below(&path, from, uids)?;
        }
    }
    Ok(())
}

/// A second name of the same file is in the new range already, and left as it is.
fn shift(path: &Path, found: &Metadata, from: u32, uids: Uids) -> io::Result<()> {
    let moved = |id: u32| (id.wrapping_sub(from) < uids.count).then(|| uids.base + (id - from));
    let (uid, gid) = (moved(found.uid()), moved(found.gid()));
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    lchown(path, uid, gid)?;
    // The kernel takes these bits away when the owner changes.
    if found.is_file() && found.mode() & SET_ID_BITS != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(found.mode() & 0o7777))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn ids(path: &Path) -> (u32, u32) {
        let found = fs::symlink_metadata(path).unwrap();
        (found.uid(), found.gid())
    }

    #[test]
    fn a_tree_goes_to_another_range_with_modes_links_and_foreign_ids_as_they_were() {
        // SAFETY: asks only.
        if unsafe { libc::geteuid() } != 0 {
            return;
        }
        let root = std::env::temp_dir().join(format!("sandpool-shift-{}", std::process::id()));
        let (old, new) = (0x7000_0000_u32, 0x7003_0000_u32);
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/tool"), "x").unwrap();
        fs::write(root.join("foreign"), "x").unwrap();
        fs::hard_link(root.join("a/b/tool"), root.join("again")).unwrap();
        symlink("/etc/passwd", root.join("link")).unwrap();
        for (name, uid) in [("", old), ("a", old), ("a/b", old + 1000), ("a/b/tool", old + 1000), ("link", old)] {
            lchown(root.join(name), Some(uid), Some(uid)).unwrap();
        }
        fs::set_permissions(root.join("a/b/tool"), fs::Permissions::from_mode(0o4755)).unwrap();
        let before = ids(Path::new("/etc/passwd"));
        shift_tree(&root, Uids { base: new, count: RANGE }).unwrap();
        assert_eq!(ids(&root), (new, new));
        assert_eq!(ids(&root.join("a/b")), (new + 1000, new + 1000));
        assert_eq!(ids(&root.join("again")), (new + 1000, new + 1000));
        assert_eq!(ids(&root.join("link")), (new, new));
        assert_eq!(ids(&root.join("foreign")), (0, 0));
        assert_eq!(ids(Path::new("/etc/passwd")), before);
        assert_eq!(fs::symlink_metadata(root.join("a/b/tool")).unwrap().mode() & 0o7777, 0o4755);
        fs::remove_dir_all(&root).unwrap();
    }
}
