"""One kept-alive HTTP/1.1 connection for the batches of a pool.

urllib3 opens the socket (TCP_NODELAY, certificates); the framing is done here, because urllib3 and http.client spend more on one
request than a step of one environment may take (measured by ``bench/transport.py``).
"""

from __future__ import annotations

import os
import socket
from typing import NamedTuple, TypeAlias

import numpy as np
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from sandpool.discovery import ServerAddress
from sandpool.errors import ReplyError
from sandpool.transport.chunks import LIMIT_BYTES, BrokenConnectionError, ByteArray, read_chunked, read_to_end
from sandpool.transport.local_socket import connect_locally
from sandpool.transport.reply_head import ReplyHead, parse_reply_head

Bytes: TypeAlias = "bytes | bytearray | memoryview"

_BUFFER_BYTES = 65_536
_JOINED_BYTES = 65_536
_CONNECT_TIMEOUT_S = 10.0


class Reply(NamedTuple):
    """Status, media type and body; the body is memory that nothing else refers to."""

    status: int
    content_type: str
    body: ByteArray


class Connection:
    """Sends one request at a time; opens itself again when it was closed. Not for use by two threads at once."""

    def __init__(self, address: ServerAddress, local_socket: str | None = None) -> None:
        self._address = address
        self._local_socket = local_socket
        self._buffer = bytearray(_BUFFER_BYTES)
        self._socket: socket.socket | None = None
        self._process_id = os.getpid()

    def exchange(self, head: bytes, body: list[Bytes], timeout_s: float) -> Reply:
        """Send one request and read its reply.

        Args:
            head: request line and headers up to the empty line, complete.
            body: parts of the body.
            timeout_s: longest silence of the server.

        Raises:
            BrokenConnectionError: the connection ended before the whole reply was here.
            ConnectionError: no connection could be made; nothing was sent.
            TimeoutError: the server was silent.
        """
        connected = self._connected()
        connected.settimeout(timeout_s)
        try:
            refused_early = self._send(connected, head, body)
            reply, closes = self._read_reply(connected)
        except TimeoutError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise BrokenConnectionError(str(error)) from error
        except BaseException:
            # An interrupt between request and reply leaves a reply on its way: it must never be taken for the next one.
            self.close()
            raise
        if closes or refused_early:
            self.close()
        return reply

    def close(self) -> None:
        """Close the socket; the next exchange opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connected(self) -> socket.socket:
        if self._socket is not None and self._process_id == os.getpid():
            return self._socket
        # After a fork the parent's socket is only let go of in the child, never used.
        self.close()
        self._process_id = os.getpid()
        self._socket = connect_locally(self._local_socket) or self._connect()
        return self._socket

    def _connect(self) -> socket.socket:
        kind = HTTPSConnection if self._address.scheme == "https" else HTTPConnection
        connection = kind(self._address.host, self._address.port, timeout=_CONNECT_TIMEOUT_S)
        try:
            connection.connect()
        except HTTPError as error:
            raise ConnectionError(str(error)) from error
        opened: socket.socket = connection.sock
        probe_silent_peer(opened)
        return opened

    def _send(self, connected: socket.socket, head: bytes, body: list[Bytes]) -> bool:
        try:
            if sum(map(len, body)) <= _JOINED_BYTES:
                connected.sendall(b"".join([head, *body]))
            else:
                connected.sendall(b"".join([head, *body[:-1]]))
                connected.sendall(body[-1])
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a body answers before it has read it; that answer says more than the broken pipe.
            return True
        return False

    def _read_reply(self, connected: socket.socket) -> tuple[Reply, bool]:
        head, start, filled = self._read_head(connected, 0)
        while head.status < 200:
            left = filled - start
            self._buffer[:left] = self._buffer[start:filled]
            head, start, filled = self._read_head(connected, left)
        received = memoryview(self._buffer)[start:filled]
        if head.chunked:
            body = read_chunked(connected, bytes(received))
        elif head.length_bytes is not None:
            body = _read_counted(connected, received, head.length_bytes)
        elif head.status in (204, 304):
            body = np.empty(0, np.uint8)
        else:
            body = read_to_end(connected, bytes(received))
        return Reply(head.status, head.content_type, body), head.closes or (head.length_bytes is None and not head.chunked)

    def _read_head(self, connected: socket.socket, filled: int) -> tuple[ReplyHead, int, int]:
        buffer = self._buffer
        while (end := buffer.find(b"\r\n\r\n", 0, filled)) < 0:
            if filled == _BUFFER_BYTES:
                raise ReplyError(f"The reply's headers are longer than {_BUFFER_BYTES} bytes.")
            received = connected.recv_into(memoryview(buffer)[filled:])
            if received == 0:
                raise BrokenConnectionError("the server closed the connection before its reply")
            filled += received
        return parse_reply_head(bytes(memoryview(buffer)[:end])), end + 4, filled


def _read_counted(connected: socket.socket, rest: memoryview, length_bytes: int) -> ByteArray:
    if length_bytes > LIMIT_BYTES or len(rest) > length_bytes:
        raise ReplyError(f"The reply announces {length_bytes} bytes and at least {len(rest)} came; expected at most {LIMIT_BYTES}.")
    body = np.empty(length_bytes, np.uint8)
    view = memoryview(body.data)
    filled = len(rest)
    view[:filled] = rest
    while filled < length_bytes:
        received = connected.recv_into(view[filled:])
        if received == 0:
            raise BrokenConnectionError(f"the server closed the connection after {filled} of {length_bytes} bytes")
        filled += received
    return body


def probe_silent_peer(connected: socket.socket) -> None:
    """Let the kernel find out within a minute that the other machine is gone, however long a batch may take."""
    for level, name, value in silent_peer_options():
        connected.setsockopt(level, name, value)


def silent_peer_options() -> list[tuple[int, int, int]]:
    """Return the socket options of `probe_silent_peer`: level, name and value."""
    seconds = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 6}
    named = [(socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in seconds.items() if hasattr(socket, name)]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *named]
