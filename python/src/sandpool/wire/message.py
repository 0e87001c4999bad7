"""The binary form of a batch: ``u32 length | msgpack map | padding | buffers``, each buffer at a multiple of 64 bytes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgpack
import numpy as np
import numpy.typing as npt

from sandpool.errors import ReplyError
from sandpool.values.dtypes import dtype_of

CONTENT_TYPE = "application/vnd.sandpool.batch"
ALIGNMENT_BYTES = 64

Array = np.ndarray[Any, np.dtype[Any]]
_ZEROS = bytes(ALIGNMENT_BYTES)


class Field(NamedTuple):
    """One buffer of a message: an array, or UTF-8 JSON text (then `array` is None)."""

    name: str
    field: int | None
    array: Array | None
    text: bytes


class Message(NamedTuple):
    """The map without its `fields`, and the fields."""

    members: dict[str, Any]
    fields: list[Field]


def encode_message(members: dict[str, Any], name: str, array: Array) -> list[bytes | memoryview]:
    """Encode a message with one array, as parts to be sent one after another; the array must be C-contiguous.

    >>> len(b"".join(encode_message({"seq": 1, "where": None}, "actions", np.zeros(2, "<i8"))))
    144
    """
    field = {"name": name, "dtype": array.dtype.str, "shape": array.shape, "offset": 0, "length": array.nbytes}
    start = ALIGNMENT_BYTES
    while True:
        field["offset"] = start
        packed = msgpack.packb({**members, "fields": [field]})
        if len(packed) + 4 <= start:
            break
        start = -(-(len(packed) + 4) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    prefix = len(packed).to_bytes(4, "little") + packed
    return [prefix, _ZEROS[: start - len(prefix)], array.reshape(-1).view(np.uint8).data if array.nbytes else b""]


def decode_message(body: npt.NDArray[np.uint8]) -> Message:
    """Take a message apart; arrays are views of `body`. Raises ReplyError for anything out of form."""
    map_end = 4 + int.from_bytes(body[:4].tobytes(), "little")
    if len(body) < 4 or map_end > len(body):
        raise _malformed(f"a message of {len(body)} bytes whose map ends at byte {map_end}")
    try:
        members = msgpack.unpackb(body[4:map_end].data)
        fields = [_decode_field(body, field) for field in members.pop("fields")]
    except (ValueError, TypeError, KeyError, AttributeError, msgpack.UnpackException) as error:
        raise _malformed(f"a message that cannot be read: {error}") from error
    return Message(members, fields)


def _decode_field(body: npt.NDArray[np.uint8], field: dict[str, Any]) -> Field:
    name, offset, length = field["name"], field["offset"], field["length"]
    if offset < 0 or length < 0 or offset + length > len(body):
        raise ValueError(f"field {name!r} spans {offset}..{offset + length} of {len(body)} bytes")
    number = field.get("field")
    if field.get("json"):
        return Field(name, number, None, body[offset : offset + length].tobytes())
    dtype, shape = dtype_of(field["dtype"]), field["shape"]
    count = math.prod(shape)
    if count * dtype.itemsize != length:
        raise ValueError(f"field {name!r} of {dtype} and shape {shape} has {length} bytes")
    return Field(name, number, np.frombuffer(body, dtype, count, offset).reshape(shape) if count else np.empty(shape, dtype), b"")


def _malformed(received: str) -> ReplyError:
    return ReplyError(f"The server sent {received}.", hint="Are the server and this client of the same version?")
