"""Observations of several rows, stacked: one array for each field of the announced space, else a list of values."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sandpool.env.describing import little_endian, space_kind
from sandpool.env.encoding import array_head, bytes_of, encode, key_head
from sandpool.env.row_text import MisfitError, row_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sandpool.env.encoding import Output

    Put = Callable[[int, Any], None]
    Write = Callable[[int, Output], str]

BUFFER_FROM_BYTES = 8192  # a row's size from which one copy into a buffer costs less than memory for each row


class Stack:
    """`put(place, value)` copies an observation at once; `text(count, output)` is the JSON of the first `count` places.

    A place that nothing was put at holds anything of the right form.
    """

    def __init__(self, space: Any, rows: int, output: Output) -> None:
        self.is_array = is_arrays(space)
        self.put, self.text = _parts_of(space, rows) if self.is_array else _list_of(rows, output)


def is_arrays(space: Any) -> bool:
    """Whether its observations are arrays of one form, and numpy is there for them."""
    return sys.modules.get("numpy") is not None and stacks(space)


def stacks(space: Any) -> bool:
    """Whether observations of the space are arrays of one form."""
    kind = space_kind(space)
    if kind in ("Dict", "Tuple"):
        parts = list(space.spaces.values() if kind == "Dict" else space.spaces)
        return bool(parts) and all(map(stacks, parts))
    return kind in ("Discrete", "MultiBinary") or (kind in ("Box", "MultiDiscrete") and space.dtype.kind in "biufc")


def _parts_of(space: Any, rows: int) -> tuple[Put, Write]:
    kind = space_kind(space)
    if kind == "Dict":
        return _dict_of(space, rows)
    if kind == "Tuple":
        return _tuple_of(space, rows)
    return _field_of(*field_of(space), rows)


def field_of(space: Any) -> tuple[Any, tuple[int, ...]]:
    """The dtype and shape in which the agent keeps one observation of the space."""
    kind = space_kind(space)
    numpy = sys.modules["numpy"]
    if kind == "Discrete":
        return little_endian(numpy.dtype(getattr(space, "dtype", None) or "<i8")), ()
    return numpy.dtype("i1") if kind == "MultiBinary" else little_endian(space.dtype), tuple(space.shape)


def _dict_of(space: Any, rows: int) -> tuple[Put, Write]:
    parts = {key: _parts_of(one, rows) for key, one in space.spaces.items()}
    puts = [(key, put) for key, (put, _) in parts.items()]
    keys = parts.keys()

    def put(place: int, value: Any) -> None:
        if len(value) != len(puts) or value.keys() != keys:
            raise MisfitError(f"the observation has the keys {list(value)!r:.200}; its Dict space has {list(keys)!r:.200}")
        for key, one in puts:
            one(place, value[key])

    def text(count: int, output: Output) -> str:
        return "{" + ",".join([key_head(key) + write(count, output) for key, (_, write) in parts.items()]) + "}"

    return _refusing(put, "a dict"), text


def _tuple_of(space: Any, rows: int) -> tuple[Put, Write]:
    parts = [_parts_of(one, rows) for one in space.spaces]

    def put(place: int, value: Any) -> None:
        if len(value) != len(parts) or not isinstance(value, (tuple, list)):
            raise MisfitError(f"the observation is {value!r:.200}; its Tuple space has {len(parts)} parts")
        for (one, _), item in zip(parts, value):
            one(place, item)

    def text(count: int, output: Output) -> str:
        return '{"$tuple":[' + ",".join([write(count, output) for _, write in parts]) + "]}"

    return _refusing(put, "a tuple"), text


def _refusing(put: Put, expected: str) -> Put:
    def put_or_refuse(place: int, value: Any) -> None:
        try:
            put(place, value)
        except (TypeError, AttributeError):
            raise MisfitError(f"the observation is {value!r:.200} ({type(value).__name__}); its space makes it {expected}") from None

    return put_or_refuse


def _field_of(dtype: Any, shape: tuple[int, ...], rows: int) -> tuple[Put, Write]:
    numpy = sys.modules["numpy"]
    array, size = numpy.ndarray, numpy.zeros(shape, dtype).nbytes
    if size >= BUFFER_FROM_BYTES:
        return _buffer_of(dtype, shape, rows)
    pieces = [bytes(size)] * rows
    kind, plain = dtype.type, dtype.str == "<i8" and not shape

    def put(place: int, value: Any) -> None:
        if type(value) is not array or value.dtype is not dtype or value.shape != shape:
            value = _fit(value, dtype, shape)
        pieces[place] = value.tobytes()

    def put_scalar(place: int, value: Any) -> None:
        if type(value) is kind:
            pieces[place] = value.tobytes()
        elif plain and type(value) is int and -(2**63) <= value < 2**63:
            pieces[place] = value.to_bytes(8, "little", signed=True)
        else:
            pieces[place] = _fit(value, dtype, shape).tobytes()

    def text(count: int, output: Output) -> str:
        return output.array(array_head(dtype, (count, *shape)), count * size, pieces[:count])

    return (put if shape else put_scalar), text


def _buffer_of(dtype: Any, shape: tuple[int, ...], rows: int) -> tuple[Put, Write]:
    numpy = sys.modules["numpy"]
    array, buffer = numpy.ndarray, numpy.zeros((rows, *shape), dtype)

    def put(place: int, value: Any) -> None:
        if type(value) is not array or value.dtype is not dtype or value.shape != shape:
            value = _fit(value, dtype, shape)
        buffer[place] = value

    def text(count: int, output: Output) -> str:
        part = buffer[:count]
        return output.array(array_head(dtype, part.shape), part.nbytes, (bytes_of(part),))

    return put, text


def _fit(value: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """The value as an array of the field, by the rules of the agent: numpy's same_kind casts, and numbers that the dtype holds."""
    numpy = sys.modules["numpy"]
    typed = hasattr(value, "dtype") or hasattr(value, "__array__")
    try:
        if not typed and not isinstance(value, (int, float, list)):
            raise ValueError("expected an array")
        array = numpy.asarray(value)
        if array.dtype.kind == "O" and typed:  # it travels as the list it is, and fits where that does
            array, typed = numpy.asarray(array.tolist()), False
        if array.shape != shape:
            raise ValueError(f"its shape is {array.shape}, expected {shape}")
        if array.dtype.kind not in "biufc":
            raise ValueError(f"its dtype is {array.dtype}, expected {dtype}")
        if typed and not numpy.can_cast(array.dtype, dtype, "same_kind"):
            raise ValueError(f"its dtype is {array.dtype}, which numpy does not cast to {dtype} (same_kind)")
        cast = array.astype(dtype)
        if not typed and dtype.kind in "iu" and not numpy.array_equal(cast, array):
            raise ValueError(f"{dtype} does not hold its numbers")
    except (TypeError, ValueError, OverflowError) as error:
        raise MisfitError(f"the observation {value!r:.200} ({type(value).__name__}) does not fit its space: {error}") from None
    return cast


def _list_of(rows: int, output: Output) -> tuple[Put, Write]:
    texts = ["null"] * rows

    def put(place: int, value: Any) -> None:
        output.lenient = False
        texts[place] = row_text(encode, value, output)

    def text(count: int, output: Output) -> str:
        joined = "[" + ",".join(texts[:count]) + "]"
        texts[:] = ["null"] * rows  # an array of this message must not stand in the next one, whose bytes are others
        return joined

    return put, text
