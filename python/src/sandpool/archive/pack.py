"""A deterministic tar.zst of an environment, named by the SHA-256 of its compressed bytes."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sandpool.archive.collect import Entry, collect_entries, find_entry_program
from sandpool.errors import InvalidValueError

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdFile
else:
    from backports.zstd import ZstdFile

_IN_MEMORY_BYTES = 32 << 20
_LEVEL = 3


@dataclass(frozen=True)
class Archive:
    """A packed environment: its compressed bytes, their hash and size, and the program inside."""

    data: IO[bytes]
    sha256: str
    size_bytes: int
    entry: str


@contextmanager
def pack_environment(environment: Path) -> Iterator[Archive]:
    """Pack a folder, or one program, with the Python helper beside it; the data is gone after the `with` block.

    Packing the same files twice gives the same bytes: entries sorted by path, times and owners zero, modes 0644 or 0755.
    """
    entry = find_entry_program(environment)
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as data:
        hashing = _HashingWriter(data)
        with ZstdFile(hashing, "w", level=_LEVEL) as compressed, tarfile.open(fileobj=compressed, mode="w|") as tar:
            for item in collect_entries(environment):
                _add(tar, item)
        data.seek(0)
        yield Archive(data, hashing.sha256.hexdigest(), hashing.size_bytes, entry)


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    header = tarfile.TarInfo(entry.path)
    header.mode = 0o755 if entry.executable or entry.kind != "file" else 0o644
    if entry.kind == "folder":
        header.type = tarfile.DIRTYPE
        tar.addfile(header)
    elif entry.kind == "link":
        header.type, header.linkname = tarfile.SYMTYPE, entry.target
        tar.addfile(header)
    elif entry.source is None:
        header.size = len(entry.content)
        tar.addfile(header, io.BytesIO(entry.content))
    else:
        _add_file(tar, header, entry.source)


def _add_file(tar: tarfile.TarFile, header: tarfile.TarInfo, source: Path) -> None:
    with source.open("rb") as file:
        header.size = source.stat().st_size
        try:
            tar.addfile(header, file)
        except OSError as error:
            raise InvalidValueError(
                f"{source} could not be read whole: {error}.",
                code="bad_environment",
                hint="Do not write to the folder while a pool starts.",
            ) from error


class _HashingWriter(io.RawIOBase):
    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self.sha256 = hashlib.sha256()
        self.size_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.sha256.update(data)
        self.size_bytes += len(data)
        return self._target.write(data)
