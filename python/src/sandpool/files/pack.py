"""A local folder as a tar, in pieces."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

from sandpool.errors import InvalidValueError
from sandpool.files.content import PIECE_BYTES

_BLOCK_BYTES = 512


class FolderTar:
    """The tar of a folder: files, folders and links as they are; owners are the machine's user.

    Attributes:
        entries: how many there were so far.
        content_bytes: of the files so far.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.entries = 0
        self.content_bytes = 0

    def pieces(self) -> Iterator[bytes]:
        """Yield the tar; raises InvalidValueError where something cannot be read, or changes meanwhile."""
        yield from self._pack_folder(self._folder, "")
        yield bytes(2 * _BLOCK_BYTES)

    def _pack_folder(self, folder: Path, inside: str) -> Iterator[bytes]:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            raise _unreadable(folder, error) from error
        for entry in entries:
            yield from self._pack(Path(entry.path), f"{inside}{entry.name}")

    def _pack(self, path: Path, name: str) -> Iterator[bytes]:
        try:
            status = path.lstat()
        except FileNotFoundError:
            # It went away while the folder was read.
            return
        if stat.S_ISDIR(status.st_mode):
            yield self._head(name, status, tarfile.DIRTYPE)
            yield from self._pack_folder(path, f"{name}/")
        elif stat.S_ISLNK(status.st_mode):
            yield self._head(name, status, tarfile.SYMTYPE, link=path.readlink())
        elif stat.S_ISREG(status.st_mode):
            yield from self._pack_file(path, name)

    def _pack_file(self, path: Path, name: str) -> Iterator[bytes]:
        try:
            file = path.open("rb")
        except OSError as error:
            raise _unreadable(path, error) from error
        with file:
            status = os.fstat(file.fileno())
            yield self._head(name, status, tarfile.REGTYPE)
            left_bytes = status.st_size
            while left_bytes > 0:
                piece = file.read(min(PIECE_BYTES, left_bytes))
                if not piece:
                    raise InvalidValueError(f"The local file {str(path)!r:.200} became shorter while it was uploaded.")
                left_bytes -= len(piece)
                self.content_bytes += len(piece)
                yield piece
            yield bytes(-status.st_size % _BLOCK_BYTES)

    def _head(self, name: str, status: os.stat_result, kind: bytes, *, link: Path | None = None) -> bytes:
        header = tarfile.TarInfo(name)
        header.type, header.mode, header.mtime = kind, stat.S_IMODE(status.st_mode), int(status.st_mtime)
        header.size = status.st_size if kind == tarfile.REGTYPE else 0
        header.linkname = "" if link is None else str(link)
        self.entries += 1
        # GNU's form holds any size and any bytes in names; pax would need them to be UTF-8.
        return header.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _unreadable(path: Path, error: OSError) -> InvalidValueError:
    return InvalidValueError(f"The local path {str(path)!r:.200} cannot be read: {error.strerror}.")
