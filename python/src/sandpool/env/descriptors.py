"""What a process has open: files and folders, each with all descriptors that lead to it, and what a copy cannot have of its own."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING

from sandpool.env.native import native_calls

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from sandpool.env.folders import Folders

O_PATH, O_DIRECT = 0o10000000, getattr(os, "O_DIRECT", 0)
FLAGS_KEPT = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_SYNC | os.O_DSYNC | os.O_NOATIME | os.O_NOFOLLOW | O_DIRECT | O_PATH
HARMLESS_DEVICES = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9)}  # null, zero, full, random, urandom
MEMORY_FILE = "/memfd:"
SQLITE_BEGINS = b"SQLite format 3\0"


class OpenFile:
    """One open file description of a regular file or a folder."""

    def __init__(self, descriptor: int, status: os.stat_result, link: str) -> None:
        self.status = status
        self.link = link
        self.flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & FLAGS_KEPT
        self.descriptors = {descriptor: os.get_inheritable(descriptor)}
        self.offset = -1 if self.flags & O_PATH else os.lseek(descriptor, 0, os.SEEK_CUR)
        self.path: str | None = None  # None: no path leads to it
        self.content = -1  # then a descriptor of the source's that the copy reads from
        self.copied = -1  # and in the copy one of the new file, for reading and writing

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    def leads_from(self, descriptor: int, status: os.stat_result) -> bool:
        """Whether that descriptor is a duplicate of this one's."""
        known = next(iter(self.descriptors))
        if not os.path.samestat(status, self.status) or fcntl.fcntl(descriptor, fcntl.F_GETFL) & FLAGS_KEPT != self.flags:
            return False
        same = native_calls().is_same_file(known, descriptor)
        return _moves_with(known, descriptor) if same is None else same


class Descriptors:
    """A process's open descriptors, sorted by what a copy makes of them."""

    def __init__(self) -> None:
        self.files: list[OpenFile] = []
        self.log: dict[int, bool] = {}  # those that lead to its log, and whether child programs inherit them
        self.refused: dict[str, list[tuple[int, str]]] = {"sockets": [], "pipes": [], "other": []}

    @property
    def blockers(self) -> list[dict[str, Any]]:
        found = []
        for kind, members in self.refused.items():
            if members:
                which = {"names": sorted({name for _, name in members})} if kind == "other" else {"descriptors": [n for n, _ in members]}
                found.append({kind: len(members), **which})
        return found


def survey_descriptors(own: Iterable[int], folders: Folders) -> Descriptors:
    """Look at every descriptor but the helper's own. The offsets are those of now: only a process that stands still is worth a look."""
    found = Descriptors()
    for descriptor, status in _statuses(sorted({int(name) for name in os.listdir("/proc/self/fd")} - set(own))):
        if (status.st_dev, status.st_ino) == folders.log:
            found.log[descriptor] = os.get_inheritable(descriptor)
            continue
        kind = _kind_of(status)
        if kind == "file":
            _note_file(found, descriptor, status, folders)
        elif kind:
            found.refused[kind].append((descriptor, os.readlink(f"/proc/self/fd/{descriptor}")))
    return found


def _statuses(descriptors: list[int]) -> list[tuple[int, os.stat_result]]:
    """All of them before the survey opens anything, which gets the number of the one that listed the folder and is gone."""
    known = []
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            known.append((descriptor, os.fstat(descriptor)))
    return known


def _kind_of(status: os.stat_result) -> str:
    mode = status.st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
        return "file"
    if stat.S_ISCHR(mode) and (os.major(status.st_rdev), os.minor(status.st_rdev)) in HARMLESS_DEVICES:
        return ""
    return "sockets" if stat.S_ISSOCK(mode) else "pipes" if stat.S_ISFIFO(mode) else "other"


def _note_file(found: Descriptors, descriptor: int, status: os.stat_result, folders: Folders) -> None:
    for known in found.files:
        if known.leads_from(descriptor, status):
            known.descriptors[descriptor] = os.get_inheritable(descriptor)
            return
    link = os.readlink(f"/proc/self/fd/{descriptor}")
    if not link.startswith("/"):  # anon_inode:…, which has no kind of its own in old kernels
        found.refused["other"].append((descriptor, link))
        return
    file = OpenFile(descriptor, status, link)
    file.path = path_of(status, link, folders)
    try:
        _check_reopening(file, folders)
    except OSError as error:
        found.refused["other"].append((descriptor, f"{link} ({error.strerror})"))
        return
    found.files.append(file)


def path_of(status: Any, link: str, folders: Folders) -> str | None:
    """A path that leads to the file, whatever the kernel's link to it says; None where there is none any more."""
    try:
        if os.path.samestat(os.lstat(link), status):
            return link
    except OSError:
        pass
    return find_inode(status.st_dev, status.st_ino, folders) if status.st_nlink else None


def find_inode(device: int, inode: int, folders: Folders) -> str | None:
    """Another name of a file that lost the one it was opened by: a hard link."""
    for top in folders.tops:
        for folder, _, _ in os.walk(top):
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.inode() == inode and entry.stat(follow_symlinks=False).st_dev == device:
                        return entry.path
    return None


def _check_reopening(file: OpenFile, folders: Folders) -> None:
    """Find out before the fork whether the copy can open it for itself. Raises OSError where it cannot."""
    descriptor = next(iter(file.descriptors))
    if file.path is None:
        if not file.is_folder:
            file.content = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    elif not folders.holds(file.path):
        own = f"/proc/{os.getpid()}/"
        if file.path.startswith(own):
            file.path = "/proc/self/" + file.path[len(own) :]
        os.close(os.open(file.path, file.flags | os.O_CLOEXEC))
    elif file.flags & (os.O_ACCMODE | O_DIRECT) == os.O_RDWR and not file.is_folder and os.pread(descriptor, 16, 0) == SQLITE_BEGINS:
        # It compares inodes before it writes, and says "attempt to write a readonly database" in a copy.
        raise OSError(errno.EBUSY, "an open SQLite database; close it between steps")


def _moves_with(left: int, right: int) -> bool:
    """Whether an offset set through one descriptor shows through the other, where the kernel's own comparison is not allowed."""
    try:
        here = os.lseek(left, 0, os.SEEK_CUR)
        if os.lseek(right, 0, os.SEEK_CUR) != here:
            return False
        os.lseek(left, here + 1, os.SEEK_SET)
        moved = os.lseek(right, 0, os.SEEK_CUR) == here + 1
        os.lseek(left, here, os.SEEK_SET)
        return moved
    except OSError:
        return False
