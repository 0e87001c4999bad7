//! inotify, also of whole trees.

use super::changes::{Changes, Kind};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const WATCHED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// Folders of one watch; a larger tree is told by `rescan`.
const FOLDERS: usize = 8192;

/// One watched path and, for trees, the folders below it.
pub struct Notify {
    descriptor: OwnedFd,
    root: PathBuf,
    recursive: bool,
    paths: HashMap<i32, PathBuf>,
    over: bool,
}

struct Event {
    watch: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<Vec<u8>>,
}

impl Notify {
    /// Watches a path that is there.
    pub fn new(root: &Path, recursive: bool) -> io::Result<Self> {
        let descriptor = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut notify = Self { descriptor, root: root.to_owned(), recursive, paths: HashMap::new(), over: false };
        notify.watch(root)?;
        if recursive {
            notify.descend(root, &mut Changes::default(), false);
        }
        Ok(notify)
    }

    /// Whether the watched path itself is gone.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Waits at most that long and adds what happened.
    pub fn read(&mut self, limit: Duration, changes: &mut Changes) -> io::Result<()> {
        let mut entry = libc::pollfd { fd: self.descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry that lives until the call returns.
        if unsafe { libc::poll(&raw mut entry, 1, limit.as_millis() as i32) } <= 0 {
            return Ok(());
        }
        let events = self.take()?;
        let mut at = 0;
        while at < events.len() {
            let partner = events.get(at + 1).filter(|next| is_move(&events[at], next));
            match partner {
                Some(partner) => self.moved(&events[at], partner, changes),
                None => self.happened(&events[at], changes),
            }
            at += if partner.is_some() { 2 } else { 1 };
        }
        Ok(())
    }

    fn take(&self) -> io::Result<Vec<Event>> {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.descriptor, &mut buffer);
        let mut events = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => events.push(Event {
                    watch: event.wd(),
                    flags: event.events(),
                    cookie: event.cookie(),
                    name: event.file_name().map(|name| name.to_bytes().to_vec()),
                }),
                Err(rustix::io::Errno::AGAIN) => return Ok(events),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if reader.is_buffer_empty() && events.len() >= 4096 {
                return Ok(events);
            }
        }
    }

    fn path_of(&self, event: &Event) -> Option<PathBuf> {
        let folder = self.paths.get(&event.watch)?;
        Some(event.name.as_ref().map_or_else(|| folder.clone(), |name| folder.join(OsStr::from_bytes(name))))
    }

    fn moved(&mut self, from: &Event, to: &Event, changes: &mut Changes) {
        let (Some(from_path), Some(to_path)) = (self.path_of(from), self.path_of(to)) else { return };
        changes.add_move(&from_path, &to_path);
        for path in self.paths.values_mut() {
            if let Ok(rest) = path.strip_prefix(&from_path) {
                *path = if rest.as_os_str().is_empty() { to_path.clone() } else { to_path.join(rest) };
            }
        }
    }

    fn happened(&mut self, event: &Event, changes: &mut Changes) {
        if event.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            changes.miss();
            return;
        }
        let Some(path) = self.path_of(event) else { return };
        let own = event.name.is_none();
        if event.flags.contains(ReadFlags::IGNORED) {
            self.paths.remove(&event.watch);
        } else if event.flags.intersects(ReadFlags::DELETE_SELF.union(ReadFlags::MOVE_SELF)) {
            if path == self.root {
                changes.add(Kind::Removed, &path);
                self.over = true;
            }
        } else if event.flags.intersects(ReadFlags::CREATE.union(ReadFlags::MOVED_TO)) {
            changes.add(Kind::Created, &path);
            if self.recursive && event.flags.contains(ReadFlags::ISDIR) && self.watch(&path).is_ok() {
                self.descend(&path, changes, true);
            }
        } else if event.flags.intersects(ReadFlags::DELETE.union(ReadFlags::MOVED_FROM)) {
            changes.add(Kind::Removed, &path);
        } else if event.flags.intersects(ReadFlags::MODIFY.union(ReadFlags::ATTRIB)) && (!own || path == self.root) {
            changes.add(Kind::Modified, &path);
        }
    }

    fn watch(&mut self, path: &Path) -> io::Result<()> {
        let flags = if path == self.root { WATCHED } else { WATCHED | WatchFlags::DONT_FOLLOW };
        let watch = inotify::add_watch(&self.descriptor, path, flags)?;
        self.paths.insert(watch, path.to_owned());
        Ok(())
    }

    /// Watches the folders below; with `tell`, what is in them already came before the watch stood.
    fn descend(&mut self, folder: &Path, changes: &mut Changes, tell: bool) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if tell {
                changes.add(Kind::Created, &path);
            }
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if self.paths.len() >= FOLDERS || self.watch(&path).is_err() {
                changes.miss();
                return;
            }
            self.descend(&path, changes, tell);
        }
    }
}

/// The two halves of a rename inside the watched tree.
fn is_move(from: &Event, to: &Event) -> bool {
    let halves = from.flags.contains(ReadFlags::MOVED_FROM) && to.flags.contains(ReadFlags::MOVED_TO);
    halves && from.cookie == to.cookie
}
