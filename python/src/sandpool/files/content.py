"""What is uploaded: a local file, bytes or a file object, read in pieces and hashed on the way."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any, TypeAlias

from sandpool.errors import InvalidTypeError, InvalidValueError

Source: TypeAlias = "str | PathLike[str] | bytes | IO[bytes]"

PIECE_BYTES = 1 << 18


@dataclass
class Content:
    """Content on its way. `size_bytes` is None where it is known at the end only; `mode` where it has none."""

    file: IO[bytes]
    size_bytes: int | None
    mode: int | None

    def __post_init__(self) -> None:
        self.sha256 = hashlib.sha256()
        self.sent_bytes = 0

    def pieces(self) -> Iterator[bytes]:
        """Yield the content; raises InvalidValueError where it cannot be read, or has become shorter or longer."""
        limit = self.size_bytes
        while limit is None or self.sent_bytes < limit:
            wanted = PIECE_BYTES if limit is None else min(PIECE_BYTES, limit - self.sent_bytes)
            try:
                piece: Any = self.file.read(wanted)
            except OSError as error:
                raise InvalidValueError(f"What is uploaded cannot be read after {self.sent_bytes} bytes: {error}.") from error
            if not isinstance(piece, bytes):
                raise InvalidTypeError(f"The file gave {type(piece).__name__}; expected bytes.", hint="Open it with mode 'rb'.")
            if not piece:
                if limit is None:
                    return
                raise InvalidValueError(f"What is uploaded ended after {self.sent_bytes} bytes; its size was {limit}.")
            self.sha256.update(piece)
            self.sent_bytes += len(piece)
            yield piece


@contextmanager
def open_content(source: Source) -> Iterator[Content]:
    """Open what is uploaded; a local path has its permission bits, bytes and file objects have none."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        yield Content(io.BytesIO(source), len(source), None)
    elif isinstance(source, (str, PathLike)):
        with _open_local(Path(source)) as file:
            status = os.fstat(file.fileno())
            yield Content(file, status.st_size, stat.S_IMODE(status.st_mode) & 0o777)
    elif hasattr(source, "read"):
        yield Content(source, _rest_of(source), None)
    else:
        raise InvalidTypeError(f"What is uploaded is of type {type(source).__name__}; expected a local path, bytes, or a file of bytes.")


def _open_local(path: Path) -> IO[bytes]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise InvalidValueError(f"The local file {str(path)!r:.200} cannot be read: {error.strerror}.") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise InvalidValueError(f"The local path {str(path)!r:.200} is no regular file.", hint="Open it yourself and pass the file object.")
    return file


def _rest_of(file: IO[bytes]) -> int | None:
    """Return how many bytes a file object still has, None for a pipe."""
    try:
        here = file.tell()
        size_bytes = file.seek(0, os.SEEK_END) - here
        file.seek(here)
    except (OSError, AttributeError, ValueError):
        return None
    return max(0, size_bytes)
