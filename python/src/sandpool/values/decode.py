"""Tagged JSON to Python values. Nothing is evaluated or unpickled, whatever the text holds."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sandpool.values.dtypes import dtype_of
from sandpool.values.graph import GraphInstance

_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def decode_json(text: bytes | str) -> Any:
    """Decode tagged JSON: ``$nd``, ``$tuple``, ``$bytes``, ``$float``, ``$graph``, and doubled ``$`` in a user's own keys.

    A tag whose content is not what the protocol says stays the plain dict it was: one environment that sends nonsense must not
    cost its neighbours their batch.

    >>> decode_json('{"a": {"$tuple": [1, {"$float": "inf"}]}}')
    {'a': (1, inf)}
    """
    encoded = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    escaped = b"\\u0024" in encoded
    if not escaped and b'"$' not in encoded:
        return json.loads(text)
    # Looking for doubled keys costs as much as all the rest, and hardly any text has one.
    return json.loads(text, object_hook=_untag_and_halve if escaped or b'"$$' in encoded else _untag)


def _untag(members: dict[str, Any]) -> Any:
    if len(members) == 1:
        ((key, content),) = members.items()
        read = _READERS.get(key)
        if read is not None:
            try:
                return read(content)
            except (ValueError, TypeError, KeyError, OverflowError, MemoryError, binascii.Error):
                return members
    return members


def _untag_and_halve(members: dict[str, Any]) -> Any:
    value = _untag(members)
    if value is not members:
        return value
    if any(key.startswith("$$") for key in members):
        return {key[1:] if key.startswith("$$") else key: value for key, value in members.items()}
    return members


def _read_array(content: Any) -> Any:
    name, shape, encoded = content
    dtype = dtype_of(name)
    if any(type(length) is not int or length < 0 for length in shape):
        raise ValueError("a shape is a list of whole numbers")
    data = base64.b64decode(encoded, validate=True)
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError("the bytes do not fill the shape")
    array = np.frombuffer(bytearray(data), dtype).reshape(shape)
    return array[()] if not shape else array


def _read_tuple(content: Any) -> tuple[Any, ...]:
    if type(content) is not list:
        raise TypeError("a tuple is written as a list")
    return tuple(content)


def _read_bytes(content: Any) -> bytes:
    return base64.b64decode(content, validate=True)


def _read_float(content: Any) -> float:
    return _FLOATS[content]


def _read_graph(content: Any) -> GraphInstance:
    return GraphInstance(content["nodes"], content["edges"], content["edge_links"])


_READERS: dict[str, Callable[[Any], Any]] = {
    "$nd": _read_array,
    "$tuple": _read_tuple,
    "$bytes": _read_bytes,
    "$float": _read_float,
    "$graph": _read_graph,
}
