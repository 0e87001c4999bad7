"""The channel to the agent: lines in, replies out, and descriptors that came with the lines."""

from __future__ import annotations

import os
import socket
import stat
import struct
from typing import TYPE_CHECKING

from sandpool.env.exiting import flush_and_exit

if TYPE_CHECKING:
    from typing import Any

READ_BYTES = 64 * 1024
PIECES_AT_ONCE = 1000  # writev takes 1024


class Channel:
    """Lines in, replies out, and descriptors that came with the lines."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        os.set_blocking(incoming, True)
        os.set_blocking(outgoing, True)
        self.incoming = incoming
        self.outgoing = outgoing
        self.is_socket = stat.S_ISSOCK(os.fstat(incoming).st_mode)
        self.buffer = b""
        self.descriptors: list[int] = []
        self.socket = socket.socket(fileno=incoming) if self.is_socket else None

    def read_line(self) -> bytes:
        """The next line with its newline; empty at the end of the channel. The ordinary line comes whole, in one read."""
        data = self.buffer or self.receive()
        end = data.find(b"\n") + 1
        if end == len(data):
            self.buffer = b""
            return data
        chunks = []
        while not end:
            chunks.append(data)
            data = self.receive()
            if not data:
                return b""
            end = data.find(b"\n") + 1
        self.buffer = data[end:]
        chunks.append(data[:end])
        return b"".join(chunks)

    def read_exactly(self, size: Any) -> bytes:
        if type(size) is not int or size < 0:
            raise ValueError(f"raw is {size!r:.80}; expected the number of bytes that follow the line")
        chunks, missing = [], size
        while missing:
            data = self.buffer or self.receive()
            if not data:
                raise EOFError(f"the channel ended {missing} bytes before the end of a request of {size} raw bytes")
            chunks.append(data[:missing])
            self.buffer = data[missing:]
            missing -= len(chunks[-1])
        return b"".join(chunks)

    def receive(self) -> bytes:
        try:
            if self.socket is None:
                return os.read(self.incoming, READ_BYTES)
            # recvmsg and not recv: descriptors that nobody has room for would be lost. It costs 0.3 µs more.
            data, ancillary, _, _ = self.socket.recvmsg(READ_BYTES, ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            return b""
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self.descriptors.extend(struct.unpack(f"{len(payload) // 4}i", payload[: len(payload) // 4 * 4]))
        return data

    def take_descriptors(self, count: int) -> list[int]:
        taken, self.descriptors = self.descriptors[:count], self.descriptors[count:]
        return taken

    def write(self, data: bytes | list[Any]) -> None:
        """Write a reply, given whole or in pieces."""
        if isinstance(data, list):
            return self.write_pieces(data)
        try:
            sent = os.write(self.outgoing, data)
            if sent < len(data):
                rest = memoryview(data)[sent:]
                while rest:
                    rest = rest[os.write(self.outgoing, rest) :]
        except (BrokenPipeError, ConnectionResetError):
            flush_and_exit(0)  # the agent is gone
        return None

    def write_pieces(self, pieces: list[Any]) -> None:
        """Write pieces as they are, for joining large ones would copy them once more."""
        try:
            for start in range(0, len(pieces), PIECES_AT_ONCE):
                some = pieces[start : start + PIECES_AT_ONCE]
                sent = os.writev(self.outgoing, some)
                for piece in some:
                    if sent >= len(piece):
                        sent -= len(piece)
                        continue
                    rest = memoryview(piece)[sent:]
                    sent = 0
                    while rest:
                        rest = rest[os.write(self.outgoing, rest) :]
        except (BrokenPipeError, ConnectionResetError):
            flush_and_exit(0)  # the agent is gone

    def close(self) -> None:
        """Let go of it in a forked child, with the descriptors meant for the child's siblings."""
        close_all(self.descriptors)
        self.descriptors = []
        if self.socket is not None:
            self.socket.close()
        else:
            os.close(self.incoming)
        if self.outgoing != self.incoming:
            os.close(self.outgoing)


ANCILLARY_BYTES = socket.CMSG_SPACE(8 * 4)


def close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def redirect_standard_streams(stderr: int) -> None:
    """0 reads nothing; 1 and 2 are stderr."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(stderr, 1)
    if stderr != 2:
        os.dup2(stderr, 2)
