"""Pieces of bytes, read like a file."""

from __future__ import annotations

from collections.abc import Iterator


class PieceReader:
    """A file over an iterator of pieces: only `read`, and only ahead."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, and nothing at the end; may return fewer before it."""
        if not self._rest:
            self._rest = next(self._pieces, b"")
        taken = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(taken) :]
        return taken

    def drain(self) -> None:
        """Read to the end, so that a break before it is noticed."""
        self._rest = b""
        for _ in self._pieces:
            pass
