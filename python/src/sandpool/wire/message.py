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


def encode_message(members: dict[str, Any], name: str, array: Array) -> list[bytes | bytearray | memoryview]:
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


class MessageReader:
    """Takes messages apart, quickest when one is laid out as the one before, as a pool's steps are."""

    def __init__(self) -> None:
        self._described: list[dict[str, Any]] | None = None
        self._places: list[_Place] = []

    def read(self, body: npt.NDArray[np.uint8]) -> Message:
        """Take a message apart; arrays are views of `body`. Raises ReplyError for anything out of form."""
        data = body.data
        map_end = 4 + int.from_bytes(data[:4], "little")
        if len(body) < 4 or map_end > len(body):
            raise _malformed(f"a message of {len(body)} bytes whose map ends at byte {map_end}")
        try:
            members = msgpack.unpackb(data[4:map_end])
            described = members.pop("fields")
            if described != self._described:
                self._places = [_place_of(field) for field in described]
                self._described = described
            fields = [_field_at(body, place) for place in self._places]
        except (ValueError, TypeError, KeyError, AttributeError, msgpack.UnpackException) as error:
            self._described = None
            raise _malformed(f"a message that cannot be read: {error}") from error
        return Message(members, fields)


def decode_message(body: npt.NDArray[np.uint8]) -> Message:
    """Take one message apart; see `MessageReader`."""
    return MessageReader().read(body)


class _Place(NamedTuple):
    name: str
    field: int | None
    dtype: np.dtype[Any] | None
    shape: tuple[int, ...]
    offset: int
    end: int


def _place_of(field: dict[str, Any]) -> _Place:
    name, offset, length = field["name"], field["offset"], field["length"]
    if offset < 0 or length < 0:
        raise ValueError(f"field {name!r} has offset {offset} and length {length}")
    if field.get("json"):
        return _Place(name, field.get("field"), None, (), offset, offset + length)
    dtype, shape = dtype_of(field["dtype"]), tuple(field["shape"])
    if math.prod(shape) * dtype.itemsize != length or min(shape, default=0) < 0:
        raise ValueError(f"field {name!r} of {dtype} and shape {shape} has {length} bytes")
    return _Place(name, field.get("field"), dtype, shape, offset, offset + length)


def _field_at(body: npt.NDArray[np.uint8], place: _Place) -> Field:
    name, number, dtype, shape, offset, end = place
    if end > len(body):
        raise ValueError(f"field {name!r} ends at byte {end} of {len(body)}")
    if dtype is None:
        return Field(name, number, None, body.data[offset:end].tobytes())
    if end == offset:
        return Field(name, number, np.empty(shape, dtype), b"")
    return Field(name, number, np.ndarray(shape, dtype, body.data, offset), b"")


def _malformed(received: str) -> ReplyError:
    return ReplyError(f"The server sent {received}.", hint="Are the server and this client of the same version?")
