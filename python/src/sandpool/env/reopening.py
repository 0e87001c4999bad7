"""In the copy of a process: every file that was open gets an open file description of its own, at the offset it had."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from typing import TYPE_CHECKING

from sandpool.env.descriptors import MEMORY_FILE
from sandpool.env.folders import without_mark

if TYPE_CHECKING:
    from sandpool.env.descriptors import OpenFile
    from sandpool.env.folders import Folders


def reopen(file: OpenFile, source: Folders, copy: Folders) -> None:
    """Put an open file description of the copy's own under every descriptor that led to the source's."""
    if file.path is not None:
        fresh = open_again(source.moved(file.path, copy), file.flags)
    elif file.is_folder:
        fresh = _open_removed_folder(copy.place_for(source.moved(without_mark(file.link), copy)), file.flags)
    else:
        file.copied = copy_unnamed(file, source, copy)
        fresh = os.open(f"/proc/self/fd/{file.copied}", file.flags & ~os.O_NOFOLLOW | os.O_CLOEXEC)
        os.fchmod(file.copied, stat.S_IMODE(file.status.st_mode))
    for descriptor, inheritable in file.descriptors.items():
        os.dup2(fresh, descriptor, inheritable)
    os.close(fresh)
    if file.offset > 0 and not file.is_folder:  # a place in a listing means nothing in another folder
        os.lseek(next(iter(file.descriptors)), file.offset, os.SEEK_SET)


def open_again(path: str, flags: int) -> int:
    """Open by path what was open before, though its mode may forbid that by now, which its owner can change for a moment."""
    flags |= os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except PermissionError:
        if flags & os.O_NOATIME:  # for the owner alone
            with contextlib.suppress(PermissionError):
                return os.open(path, flags & ~os.O_NOATIME)
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        os.chmod(path, mode | 0o700)
        try:
            return os.open(path, flags)
        finally:
            os.chmod(path, mode)


def copy_unnamed(file: OpenFile, source: Folders, copy: Folders) -> int:
    """A copy of a file that no path leads to, opened for reading and writing, as nameless as it was."""
    name = without_mark(file.link)
    if name.startswith(MEMORY_FILE):
        sealable = fcntl.fcntl(file.content, fcntl.F_GET_SEALS)
        made = os.memfd_create(name[len(MEMORY_FILE) :], os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        copy_content(file.content, made, file.status.st_size)
        fcntl.fcntl(made, fcntl.F_ADD_SEALS, sealable)
        return made
    made = make_unnamed(copy.place_for(source.moved(name, copy)))
    copy_content(file.content, made, file.status.st_size)
    return made


def make_unnamed(folder: str) -> int:
    try:
        made = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
        path = _passing_name(folder)  # a file system without O_TMPFILE
        made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.unlink(path)
    os.fchmod(made, 0o600)  # whatever the umask
    return made


def copy_content(incoming: int, outgoing: int, size: int) -> None:
    """Copy `size` bytes with their holes."""
    data = 0
    while data < size:
        try:
            data = os.lseek(incoming, data, os.SEEK_DATA)
            hole = os.lseek(incoming, data, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                break
            hole = size  # not known here
        os.lseek(outgoing, data, os.SEEK_SET)
        while data < hole:
            data += os.sendfile(outgoing, incoming, data, hole - data) or size
    os.ftruncate(outgoing, size)


def change_folder(path: str | None, copy: Folders) -> None:
    """Go to the folder the source is in; to one that is removed at once where the source's was removed too."""
    if path is not None:
        os.chdir(path)
        return
    folder = _passing_name(copy.place_for(""))
    os.mkdir(folder)
    os.chdir(folder)
    os.rmdir(folder)


def _open_removed_folder(parent: str, flags: int) -> int:
    folder = _passing_name(parent)
    os.mkdir(folder, 0o700)
    try:
        return os.open(folder, flags | os.O_CLOEXEC)
    finally:
        os.rmdir(folder)


def _passing_name(folder: str) -> str:
    """A name that no one else takes, for as long as nobody else looks; `tempfile` would load `random`, which tells of an import."""
    return os.path.join(folder, f".sandpool-{os.getpid()}")
