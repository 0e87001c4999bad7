"""The body of a streamed exec: ``u8 kind | u32 length LE | bytes``."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sandpool.errors import ReplyError

STDIN, STDOUT, STDERR, CONTROL = 0, 1, 2, 3
_HEAD = struct.Struct("<BI")
_LIMIT_BYTES = 16 << 20


class Frame(NamedTuple):
    """What one frame holds: output, or a control message."""

    kind: int
    data: bytes

    def control(self) -> dict[str, Any]:
        """Return a control message."""
        try:
            message = json.loads(self.data)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise ReplyError(f"A control message of an exec is {self.data[:80]!r}; expected a JSON object.")
        return message


def read_frames(pieces: Iterable[bytes]) -> Iterator[Frame]:
    """Yield the frames in a body that comes in any pieces. Half a frame at its end is left out: such a body broke off."""
    pending = bytearray()
    for piece in pieces:
        pending += piece
        start = 0
        while len(pending) - start >= _HEAD.size:
            kind, length = _HEAD.unpack_from(pending, start)
            check_frame(kind, length)
            end = start + _HEAD.size + length
            if len(pending) < end:
                break
            yield Frame(kind, bytes(pending[start + _HEAD.size : end]))
            start = end
        del pending[:start]


def check_frame(kind: int, length: int) -> None:
    """Check what a frame says of itself."""
    if kind not in (STDOUT, STDERR, CONTROL) or length > _LIMIT_BYTES:
        raise ReplyError(
            f"A frame of an exec has kind {kind} and {length} bytes; expected kinds {STDOUT} to {CONTROL} and at most {_LIMIT_BYTES} bytes."
        )
