"""A tar from a machine, unpacked below a local folder and nowhere else, whatever it says.

Not `tarfile.extract`: its safe filter is missing in Pythons that we support, and looks at paths before it opens them. Here each part of
a path is opened by itself and no link is ever followed, so that there is no moment between the look and the deed.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from sandpool.errors import LimitError, ReplyError
from sandpool.warn import warn_user

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_COPY_BYTES = 1 << 18
_EXTENSION_LIMIT_BYTES = 1 << 20
_PATH_LIMIT_PARTS = 1024
_EXTENSIONS = frozenset({tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE})


class Unpacker:
    """Unpacks one tar.

    Attributes:
        entries: how many there were so far.
        content_bytes: of the files so far.
    """

    def __init__(self, folder: Path, limit_bytes: int | None) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._left_out: list[str] = []
        self.entries = 0
        self.content_bytes = 0

    def unpack(self, source: IO[bytes]) -> None:
        """Unpack a tar; raises ReplyError for one that is damaged or would leave the folder."""
        root = os.open(self._folder, _FOLDER)
        try:
            with tarfile.open(fileobj=source, mode="r|", tarinfo=_CarefulTarInfo, encoding="utf-8", errors="surrogateescape") as tar:
                for member in tar:
                    self._add(root, tar, member)
                    # Else it keeps every entry of a tree of any size.
                    tar.members = []  # type: ignore[attr-defined]
        except tarfile.TarError as error:
            raise ReplyError(f"The machine's tar is damaged after {self.entries} entries: {error}.") from error
        finally:
            os.close(root)
        if self._left_out:
            warn_user(
                f"{len(self._left_out)} links that lead out of the folder were left out of the download, the first is {self._left_out[0]}."
            )

    def _add(self, root: int, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = _parts_of(member.name)
        self.entries += 1
        if not parts:
            return
        with _open_parent(root, parts) as parent:
            if member.isdir():
                _make_folder(parent, parts[-1], member.mode)
            elif member.isreg() and member.sparse is None:
                content = tar.extractfile(member)
                if content is None:
                    raise ReplyError(f"The machine's tar has no content for {member.name!r:.200}.")
                self._write(parent, parts[-1], content, member)
            elif member.issym():
                self._link(parent, parts, member.linkname)
            elif member.islnk():
                _link_again(root, parent, parts, _parts_of(member.linkname))
            else:
                raise ReplyError(f"The machine's tar has {member.name!r:.200}, which is no file, folder or link.")

    def _write(self, parent: int, name: str, content: IO[bytes], member: tarfile.TarInfo) -> None:
        with _replacing(parent, name) as beside, os.fdopen(os.open(beside, _FILE, member.mode & 0o777, dir_fd=parent), "wb") as file:
            while piece := content.read(_COPY_BYTES):
                self.content_bytes += len(piece)
                if self._limit_bytes is not None and self.content_bytes > self._limit_bytes:
                    raise LimitError(f"The folder holds more than limit_bytes={self._limit_bytes}.", code="file_invalid")
                file.write(piece)

    def _link(self, parent: int, parts: list[str], target: str) -> None:
        if _leads_out(parts, target):
            self._left_out.append(f"{'/'.join(parts)} -> {target}"[:300])
            return
        with _replacing(parent, parts[-1]) as beside:
            os.symlink(target, beside, dir_fd=parent)


class _CarefulTarInfo(tarfile.TarInfo):
    """An entry that does not take damage for the end, as `tarfile` does, and whose long names are of a sane length."""

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> tarfile.TarInfo:  # type: ignore[override]
        try:
            return super().fromtarfile(tar)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise ReplyError(f"The machine's tar is damaged: {error}.") from error

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _EXTENSIONS and self.size > _EXTENSION_LIMIT_BYTES:
            raise ReplyError(f"The machine's tar has a header of {self.size} bytes; expected at most {_EXTENSION_LIMIT_BYTES}.")
        if self.type == tarfile.GNUTYPE_SPARSE:
            raise ReplyError("The machine's tar has a sparse file, which may claim any size.")
        return super()._proc_member(tar)  # type: ignore[misc, no-any-return]


def _parts_of(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or len(parts) > _PATH_LIMIT_PARTS:
        raise ReplyError(f"The machine's tar has the path {name!r:.200}; expected one below the folder.")
    return parts


def _leads_out(parts: list[str], target: str) -> bool:
    """Whether a link leads out of the folder. Only at its start does `..` lead up: later folders may be links themselves."""
    if not target or target.startswith("/") or "\0" in target:
        return True
    steps = [step for step in target.split("/") if step not in ("", ".")]
    ups = next((count for count, step in enumerate(steps) if step != ".."), len(steps))
    return ups > len(parts) - 1 or ".." in steps[ups:]


@contextmanager
def _open_parent(root: int, parts: list[str]) -> Iterator[int]:
    """Open the folder of an entry, each part by itself, and make those that are missing."""
    here = os.dup(root)
    try:
        for part in parts[:-1]:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=here)
            try:
                there = os.open(part, _FOLDER, dir_fd=here)
            except OSError as error:
                raise ReplyError(f"The machine's tar has {'/'.join(parts)!r:.200} below what is no folder.") from error
            os.close(here)
            here = there
        yield here
    finally:
        os.close(here)


def _make_folder(parent: int, name: str, mode: int) -> None:
    try:
        # Ours to write in, whatever the machine says.
        os.mkdir(name, (mode & 0o777) | 0o700, dir_fd=parent)
    except FileExistsError:
        try:
            os.close(os.open(name, _FOLDER, dir_fd=parent))
        except OSError as error:
            raise ReplyError(f"The machine's tar has a folder {name!r:.200} where something else is.") from error


def _link_again(root: int, parent: int, parts: list[str], first: list[str]) -> None:
    if not first:
        raise ReplyError("The machine's tar has another name of nothing.")
    with _open_parent(root, first) as folder, _replacing(parent, parts[-1]) as beside:
        try:
            os.link(first[-1], beside, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            raise ReplyError(f"The machine's tar has another name of {'/'.join(first)!r:.200}, which is not there.") from error


@contextmanager
def _replacing(parent: int, name: str) -> Iterator[str]:
    """Give a name beside; what was made there takes the place of `name`."""
    beside = f".{os.urandom(6).hex()}.part"
    try:
        yield beside
        try:
            os.replace(beside, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError as error:
            raise ReplyError(f"What the machine calls {name!r:.200} cannot stand here: {error.strerror}.") from error
        # Of two names of one file none is replaced.
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=parent)
        raise
