//! A row's private files: a tmpfs with a quota, or plain folders without isolation.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::sys::explain;
use super::{Identity, Isolation};

const FOLDERS: [&str; 3] = ["workspace", "tmp", "shm"];

impl Isolation {
    /// Makes the row's groups, where the agent has to, and its workspace anew, empty: folders `workspace`, `tmp`, `shm`, mode 0700, the row's.
    pub fn create_workspace(&self, id: &Identity) -> io::Result<()> {
        self.remove_workspace(id)?;
        #[cfg(target_os = "linux")]
        self.make_own_groups(id)?;
        let explained = |error| explain(error, format!("cannot make the workspace {:?}", id.workspace));
        fs::create_dir_all(&id.workspace).map_err(explained)?;
        #[cfg(target_os = "linux")]
        if self.settings.isolated {
            return self.mount_quota(id).map_err(explained);
        }
        for folder in FOLDERS {
            let path = id.workspace.join(folder);
            fs::create_dir(&path).map_err(explained)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).map_err(explained)?;
        }
        Ok(())
    }

    /// Takes the workspace out of the agent's mount namespace once the row's process holds it: from then
    /// on it lives and dies with that process. Unisolated it does nothing.
    pub fn detach_workspace(&self, id: &Identity) -> io::Result<()> {
        if self.settings.isolated {
            return self.remove_workspace(id);
        }
        Ok(())
    }

    /// Removes the workspace. Removing it twice is no error.
    pub fn remove_workspace(&self, id: &Identity) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if self.settings.isolated {
            return unmount_quota(&id.workspace);
        }
        remove_tree(&id.workspace)
    }
}

#[cfg(target_os = "linux")]
impl Isolation {
    /// Detached mounts of the row's folders (`/workspace`, `/tmp`, `/dev/shm`) for the fork of a live
    /// environment, whose mount namespace cannot see the path. Call between create and detach; the child
    /// attaches each with `move_mount(fd, "", AT_FDCWD, target, 4)` after its `unshare`.
    pub fn detached_workspace(&self, id: &Identity) -> io::Result<[std::os::fd::OwnedFd; 3]> {
        super::mounts::detached(id)
    }

    fn mount_quota(&self, id: &Identity) -> io::Result<()> {
        use super::{launch::c_string, mounts};
        use std::os::unix::fs::chown;

        // The root and the three folders take inodes too.
        let rows = u64::from(id.rows);
        let inodes = self.settings.workspace_inodes.saturating_mul(rows).saturating_add(FOLDERS.len() as u64 + 1);
        let bytes = self.together(self.settings.workspace_bytes, id.rows);
        let options = c_string(format!("size={bytes},nr_inodes={inodes},mode=0700"))?;
        let target = c_string(id.workspace.to_string_lossy().into_owned())?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        mounts::mount(c"tmpfs", &target, Some(c"tmpfs"), flags, Some(&options))?;
        for folder in FOLDERS {
            let path = id.workspace.join(folder);
            fs::create_dir(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
            chown(&path, Some(id.uid), Some(id.gid))?;
        }
        // Last: until here no row can enter.
        chown(&id.workspace, Some(id.uid), Some(id.gid))
    }
}

#[cfg(target_os = "linux")]
fn unmount_quota(path: &Path) -> io::Result<()> {
    use super::{launch::c_string, mounts};

    let target = c_string(path.to_string_lossy().into_owned())?;
    match mounts::detach(&target) {
        // Not mounted, or not there.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {}
        other => other.map_err(|error| explain(error, format!("cannot unmount {path:?}")))?,
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(|error| explain(error, format!("cannot remove {path:?}"))),
    }
}

/// Also removes folders whose owner took their own permissions away.
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_folders(path);
            fs::remove_dir_all(path).map_err(|error| explain(error, format!("cannot remove the workspace {path:?}")))
        }
        Err(error) => Err(explain(error, format!("cannot remove the workspace {path:?}"))),
    }
}

fn open_folders(path: &Path) {
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_folders(&entry.path());
        }
    }
}
