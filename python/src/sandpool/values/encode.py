"""Python values to tagged JSON."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np

from sandpool.errors import InvalidTypeError, InvalidValueError
from sandpool.values.dtypes import is_portable

_DEPTH_LIMIT = 60
_PLAIN = frozenset({type(None), bool, int, str})


def encode_json(value: Any, path: str = "value") -> bytes:
    """Encode `value` as tagged JSON text; `path` names it in errors.

    Raises:
        InvalidTypeError: something in it has no form on the wire; the message says where.

    >>> encode_json({"a": (1, float("inf"))})
    b'{"a":{"$tuple":[1,{"$float":"inf"}]}}'
    """
    try:
        return json.dumps(tag(value, path), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidValueError(
            f"{path} holds text with a lone surrogate, {error.object[error.start]!r}; expected Unicode text."
        ) from error


def tag(value: Any, path: str = "value", depth: int = 0) -> Any:
    """Turn `value` into what `json.dumps` can write, with the protocol's tags."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if depth >= _DEPTH_LIMIT:
        raise InvalidValueError(f"{path} is nested deeper than {_DEPTH_LIMIT} levels, which no environment would be sent.")
    if kind is list:
        return [tag(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, dict):
        return _tag_members(value, path, depth)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, (np.ndarray, np.generic)):
        return _tag_array(np.asarray(value), path)
    if isinstance(value, tuple):
        return _tag_tuple(value, path, depth)
    return _tag_other(value, path, depth)


def _tag_members(value: dict[Any, Any], path: str, depth: int) -> dict[str, Any]:
    tagged = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidTypeError(f"{path} has the key {key!r:.60} of type {type(key).__name__}; expected text.")
        tagged[f"${key}" if key.startswith("$") else key] = tag(item, f"{path}[{key!r}]", depth + 1)
    return tagged


def _tag_array(array: np.ndarray[Any, np.dtype[Any]], path: str) -> dict[str, Any]:
    if not is_portable(array.dtype):
        raise InvalidTypeError(
            f"{path} is an array of dtype {array.dtype}; expected numbers, booleans, dates or fixed-length text.",
            hint="Objects are never sent as bytes; use lists and dicts.",
        )
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and np.little_endian is False):
        array = array.astype(array.dtype.newbyteorder("<"))
    return {"$nd": [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode("ascii")]}


def _tag_tuple(value: tuple[Any, ...], path: str, depth: int) -> dict[str, Any]:
    if getattr(value, "_fields", None) == ("nodes", "edges", "edge_links"):
        parts = zip(("nodes", "edges", "edge_links"), value, strict=True)
        return {"$graph": {name: tag(part, f"{path}.{name}", depth + 2) for name, part in parts}}
    return {"$tuple": [tag(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]}


def _tag_other(value: Any, path: str, depth: int) -> Any:
    # Subclasses of the plain types, such as IntEnum or a str of an HTML library, go as what they hold.
    plain_types: tuple[type[Any], ...] = (bool, int, float, str, list)
    for plain in plain_types:
        if isinstance(value, plain):
            return tag(plain(value), path, depth)
    if hasattr(value, "__array__"):
        return _tag_array(np.asarray(value), path)
    raise InvalidTypeError(
        f"{path} is of type {type(value).__module__}.{type(value).__qualname__}; expected None, bool, int, float, text, bytes, list, "
        "tuple, dict with text keys, or a numpy array or scalar.",
        hint="Nothing is pickled on its way to an environment: send data, not objects.",
    )
