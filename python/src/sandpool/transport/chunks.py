"""Reply bodies whose length is not announced: chunked, or up to the end of the connection.

Sandpool's server announces lengths; a proxy between may not keep them.
"""

from __future__ import annotations

import socket
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sandpool.errors import ReplyError

ByteArray: TypeAlias = "npt.NDArray[np.uint8]"

LIMIT_BYTES = 2 << 30
_PIECE_BYTES = 65_536


class BrokenConnectionError(OSError):
    """The connection ended between a request and the end of its reply."""


def read_chunked(connected: socket.socket, received: bytes) -> ByteArray:
    """Read a chunked body of which `received` is already here."""
    reader = _Reader(connected, received)
    body = bytearray()
    while (size := _size_of(reader.line())) > 0:
        if len(body) + size > LIMIT_BYTES:
            raise _too_long()
        body += reader.counted(size)
        reader.counted(2)
    while reader.line():
        pass
    return np.frombuffer(body, np.uint8)


def read_to_end(connected: socket.socket, received: bytes) -> ByteArray:
    """Read a body that ends with the connection."""
    body = bytearray(received)
    while piece := connected.recv(_PIECE_BYTES):
        body += piece
        if len(body) > LIMIT_BYTES:
            raise _too_long()
    return np.frombuffer(body, np.uint8)


class _Reader:
    """Reads lines and counted pieces from a socket, first what was already received."""

    def __init__(self, connected: socket.socket, received: bytes) -> None:
        self._socket = connected
        self._received = bytearray(received)

    def line(self) -> bytes:
        while (end := self._received.find(b"\r\n")) < 0:
            if len(self._received) > _PIECE_BYTES:
                raise ReplyError("A line between the chunks of the reply does not end.")
            self._more()
        return self._take(end + 2)[:-2]

    def counted(self, length_bytes: int) -> bytes:
        while len(self._received) < length_bytes:
            self._more()
        return self._take(length_bytes)

    def _more(self) -> None:
        piece = self._socket.recv(_PIECE_BYTES)
        if not piece:
            raise BrokenConnectionError("the server closed the connection inside a chunked reply")
        self._received += piece

    def _take(self, length_bytes: int) -> bytes:
        taken = bytes(self._received[:length_bytes])
        del self._received[:length_bytes]
        return taken


def _size_of(line: bytes) -> int:
    text = line.partition(b";")[0].strip()
    if not text or text.strip(b"0123456789abcdefABCDEF"):
        raise ReplyError(f"A chunk of the reply begins with {text[:40]!r}; expected its size.")
    return int(text, 16)


def _too_long() -> ReplyError:
    return ReplyError(f"The reply is longer than {LIMIT_BYTES} bytes.")
