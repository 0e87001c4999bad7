"""Output of programs: bytes on the wire, text by a decoder that knows characters split between two pieces."""

from __future__ import annotations

import base64
import binascii
import codecs

from sandpool.errors import ReplyError

KEEP_BYTES = 8 << 20


def bytes_of(member: object) -> bytes:
    """Return the bytes of an output as it travels: text, or bytes in base64."""
    if isinstance(member, str):
        # A lone surrogate cannot be in a reply that was valid UTF-8; a damaged one must not end in an exception of Python's.
        return member.encode("utf-8", "surrogatepass")
    if isinstance(member, dict) and isinstance(member.get("base64"), str):
        try:
            return base64.b64decode(member["base64"], validate=True)
        except binascii.Error as error:
            raise ReplyError(f"The server's base64 of an output is damaged: {error}.") from error
    raise ReplyError(f"The server gave an output as {member!r:.80}; expected text or base64.")


def text_of(data: bytes, head_bytes: int, dropped_bytes: int) -> str:
    """Return kept output as text. Where its middle was dropped a line of its own says how much."""
    if dropped_bytes <= 0:
        return data.decode("utf-8", "replace")
    head, tail = data[:head_bytes].decode("utf-8", "replace"), data[head_bytes:].decode("utf-8", "replace")
    return f"{head}\n[… {dropped_bytes} bytes dropped …]\n{tail}"


def text_decoder() -> codecs.IncrementalDecoder:
    """Make a decoder for one stream of one program."""
    return codecs.getincrementaldecoder("utf-8")("replace")


class Keeper:
    """Keeps head and tail of a stream that may have any length, as the agent does."""

    def __init__(self, keep_bytes: int = KEEP_BYTES) -> None:
        self._half = keep_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total_bytes += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Cut seldom: each cut moves the rest.
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def content(self) -> tuple[bytes, int, int]:
        """Return what was kept, how much of it is the head, and how many bytes between head and tail are gone."""
        tail = bytes(self._tail[-self._half :]) if len(self._tail) > self._half else bytes(self._tail)
        return bytes(self._head) + tail, len(self._head), self.total_bytes - len(self._head) - len(tail)
