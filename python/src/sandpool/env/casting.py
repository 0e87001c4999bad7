"""The cast of an action to what iterating Gymnasium's batched space gives."""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import TYPE_CHECKING

from sandpool.env.decoding import decode
from sandpool.env.describing import space_kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Caster = Callable[[Any, bytes], Any]


def caster_of(space: Any) -> Caster:
    """cast(tagged JSON, raw bytes) -> action, for the environment's action space; None for one that announces none."""
    if space is None:
        return decode
    build = _CASTERS.get(space_kind(space))
    return build(space) if build is not None else decode


def _does_not_fit(value: Any, space: Any, reason: Any) -> ValueError:
    return ValueError(f"the action {value!r:.200} does not fit {ascii(space)[:200]}: {reason}")


def _cast_discrete(space: Any) -> Caster:
    kind = space.dtype.type

    def cast(value: Any, raw: bytes) -> Any:
        if type(value) is not int:
            plain = decode(value, raw)
            try:
                whole = int(plain)
                if isinstance(plain, (str, bytes)) or whole != plain or getattr(plain, "shape", ()) != ():
                    raise ValueError("expected one integer")
            except (TypeError, ValueError, OverflowError) as error:
                raise _does_not_fit(value, space, error) from None
            value = whole
        return kind(value)

    return cast


def _cast_array(space: Any) -> Caster:
    numpy = sys.modules["numpy"]
    dtype, shape, whole = space.dtype, tuple(space.shape), space.dtype.kind in "iub"

    def cast(value: Any, raw: bytes) -> Any:
        try:
            if type(value) is list and not whole:
                try:
                    array = numpy.array(value, dtype)
                except (TypeError, ValueError):
                    array = numpy.asarray(decode(value, raw), dtype)
            else:
                source = numpy.asarray(decode(value, raw))
                array = source.astype(dtype, copy=False)
                if whole and source.dtype != dtype and not numpy.array_equal(array, source):
                    raise ValueError("expected integers in its range")
        except (TypeError, ValueError, OverflowError) as error:
            raise _does_not_fit(value, space, error) from None
        if array.shape != shape:
            raise _does_not_fit(value, space, f"its shape is {array.shape}, expected {shape}")
        return array if shape else array[()]

    return cast


def items_of(value: Any) -> Any:
    return value["$tuple"] if type(value) is dict and len(value) == 1 and "$tuple" in value else value


def _cast_tuple(space: Any) -> Caster:
    casts = [caster_of(one) for one in space.spaces]

    def cast(value: Any, raw: bytes) -> Any:
        items = items_of(value)
        if type(items) is not list or len(items) != len(casts):
            raise _does_not_fit(value, space, f"expected a tuple of {len(casts)}")
        return tuple(one(item, raw) for one, item in zip(casts, items))

    return cast


def _cast_dict(space: Any) -> Caster:
    casts = {}
    kind = OrderedDict if isinstance(space.spaces, OrderedDict) else dict  # as Gymnasium's own iteration before 1.0
    for key, one in space.spaces.items():
        text = str(key)
        casts["$" + text if text[:1] == "$" else text] = (key, caster_of(one))

    def cast(value: Any, raw: bytes) -> Any:
        if type(value) is not dict or value.keys() != casts.keys():
            raise _does_not_fit(value, space, f"expected exactly the keys {', '.join(casts)}")
        return kind((key, one(value[text], raw)) for text, (key, one) in casts.items())

    return cast


def _cast_sequence(space: Any) -> Caster:
    one = caster_of(space.feature_space)
    stacked = getattr(space, "stack", False)

    def cast(value: Any, raw: bytes) -> Any:
        items = items_of(value)
        if stacked or type(items) is not list:
            plain = decode(value, raw)
            dtype = getattr(space.feature_space, "dtype", None)
            return sys.modules["numpy"].asarray(plain, dtype) if isinstance(plain, list) and dtype is not None else plain
        return tuple(one(item, raw) for item in items)

    return cast


def _cast_one_of(space: Any) -> Caster:
    casts = [caster_of(one) for one in space.spaces]
    number = sys.modules["numpy"].int64

    def cast(value: Any, raw: bytes) -> Any:
        items = items_of(value)
        which = decode(items[0], raw) if type(items) is list and len(items) == 2 else None
        if which is None or isinstance(which, (bool, str)) or which not in range(len(casts)):
            raise _does_not_fit(value, space, f"expected (index below {len(casts)}, value)")
        return number(which), casts[int(which)](items[1], raw)

    return cast


def _cast_graph(space: Any) -> Caster:
    numpy = sys.modules["numpy"]

    def cast(value: Any, raw: bytes) -> Any:
        plain = decode(value, raw)
        if not hasattr(plain, "edge_links"):
            raise _does_not_fit(value, space, "expected a $graph")
        dtypes = (space.node_space.dtype, getattr(space.edge_space, "dtype", None), numpy.dtype("int32"))
        arrays = [None if part is None else numpy.asarray(part, dtype) for part, dtype in zip(plain, dtypes)]
        return type(plain)(*arrays)

    return cast


_CASTERS: dict[str, Callable[[Any], Caster]] = {
    "Box": _cast_array,
    "Discrete": _cast_discrete,
    "MultiDiscrete": _cast_array,
    "MultiBinary": _cast_array,
    "Dict": _cast_dict,
    "Tuple": _cast_tuple,
    "Sequence": _cast_sequence,
    "OneOf": _cast_one_of,
    "Graph": _cast_graph,
}
