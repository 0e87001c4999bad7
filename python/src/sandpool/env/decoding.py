"""Values in: tagged JSON as Python values. Nothing is evaluated or unpickled."""

from __future__ import annotations

import binascii
import struct
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def decode(value: Any, raw: bytes = b"") -> Any:
    """The value of tagged JSON; `raw` is what followed the line."""
    if type(value) is list:
        return [decode(item, raw) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((key, inner),) = value.items()
        reader = _READERS.get(key)
        if reader is not None:
            return reader(inner, raw)
    return {(key[1:] if key[:2] == "$$" else key): decode(item, raw) for key, item in value.items()}


def _read_array(form: Any, raw: bytes) -> Any:
    """`$nd`: a writable numpy array or a numpy scalar; nested lists or a number in a process without numpy."""
    try:
        dtype, shape, data = _array_parts(form, raw)
        count = 1
        for size in shape:
            count *= size
        numpy = sys.modules.get("numpy")
        if numpy is None:
            code = _STRUCT_CODES[dtype[1:]]
            items = struct.unpack(f"{'>' if dtype[0] == '>' else '<'}{count}{code}", data)
            return _nest(list(items), shape)
        kind = numpy.dtype(dtype)
        if kind.kind not in "biufcmMSUV":
            raise ValueError("its dtype is not one of plain numbers, dates or text")
        array = numpy.frombuffer(bytearray(data), kind, count).reshape(shape) if count else numpy.zeros(shape, kind)
        if array.nbytes != len(data):
            raise ValueError(f"its shape needs {array.nbytes} bytes, it has {len(data)}")
        return array if shape else array[()]
    except (TypeError, ValueError, KeyError, IndexError, struct.error) as error:
        raise ValueError(
            f"received $nd {form!r:.120} ({error}); expected [dtype, shape, base64] or [dtype, shape, offset, length]"
        ) from None


def _array_parts(form: Any, raw: bytes) -> tuple[str, tuple[int, ...], bytes]:
    dtype, shape = form[0], tuple(form[1])
    if type(dtype) is not str or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("dtype must be text and shape a list of sizes")
    if len(form) == 3:
        return dtype, shape, binascii.a2b_base64(form[2])
    offset, length = form[2:]
    if type(offset) is not int or type(length) is not int or offset < 0 or length < 0 or offset + length > len(raw):
        raise ValueError(f"bytes {offset}+{length} are outside the {len(raw)} raw bytes")
    return dtype, shape, raw[offset : offset + length]


_STRUCT_CODES = {
    "b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f2": "e", "f4": "f", "f8": "d",
}  # fmt: skip


def _nest(items: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return items[0]
    if len(shape) == 1:
        return items
    width = len(items) // shape[0] if shape[0] else 0
    return [_nest(items[row * width : (row + 1) * width], shape[1:]) for row in range(shape[0])]


def _read_tuple(items: Any, raw: bytes) -> Any:
    return tuple(decode(item, raw) for item in items)


def _read_float(text: Any, raw: bytes) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(f"received $float {text!r:.80}; expected nan, inf or -inf")
    return float(text)


def _read_graph(members: Any, raw: bytes) -> Any:
    parts = {name: decode(members.get(name), raw) for name in ("nodes", "edges", "edge_links")}
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium.spaces.GraphInstance(**parts) if gymnasium is not None else parts


_READERS: dict[str, Callable[[Any, bytes], Any]] = {
    "$nd": _read_array,
    "$tuple": _read_tuple,
    "$bytes": lambda text, raw: binascii.a2b_base64(text),
    "$float": _read_float,
    "$graph": _read_graph,
}
