"""Batched observations as the protocol's stacked ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sandpool.env.describing import space_kind
from sandpool.env.encoding import array_head, bytes_of, encode, key_head
from sandpool.env.row_text import MisfitError
from sandpool.env.stack import field_of, stacks

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.encoding import Output


def observations_text(space: Any, batch: Any, places: Any, count: int, output: Output) -> str:
    """The JSON of the observations at these places of a batch of `count`."""
    output.lenient = False
    if space is not None and stacks(space):
        return _stacked(space, batch, places, count, output)
    return "[" + ",".join([encode(row_of(space, batch, row), output) for row in places]) + "]"


def length_of(space: Any, batch: Any) -> int:
    """How many rows a batch has."""
    kind = space_kind(space) if space is not None else "Custom"
    if kind in ("Dict", "Tuple"):
        parts = list(space.spaces.items()) if kind == "Dict" else list(enumerate(space.spaces))
        return length_of(parts[0][1], batch[parts[0][0]]) if parts else 0
    return len(batch)


def _stacked(space: Any, batch: Any, places: Any, count: int, output: Output) -> str:
    kind = space_kind(space)
    if kind == "Dict":
        if not hasattr(batch, "keys") or batch.keys() != space.spaces.keys():
            raise MisfitError(f"the observations are {batch!r:.200}; expected a dict with the keys {list(space.spaces)!r:.200}")
        parts = [key_head(key) + _stacked(one, batch[key], places, count, output) for key, one in space.spaces.items()]
        return "{" + ",".join(parts) + "}"
    if kind == "Tuple":
        if not isinstance(batch, (tuple, list)) or len(batch) != len(space.spaces):
            raise MisfitError(f"the observations are {batch!r:.200}; expected a tuple of {len(space.spaces)}")
        return '{"$tuple":[' + ",".join([_stacked(one, part, places, count, output) for one, part in zip(space.spaces, batch)]) + "]}"
    return _array(space, batch, places, count, output)


def _array(space: Any, batch: Any, places: Any, count: int, output: Output) -> str:
    numpy = sys.modules["numpy"]
    dtype, shape = field_of(space)
    array = numpy.asarray(batch)
    if array.shape == (count, *shape):
        array = array if len(places) == count else array[numpy.asarray(places)]
    else:
        raise MisfitError(f"observations of the shape {array.shape}; expected {(count, *shape)}, which is {shape} a row")
    if array.dtype != dtype:
        if not numpy.can_cast(array.dtype, dtype, "same_kind"):
            raise MisfitError(f"observations of the dtype {array.dtype}, which numpy does not cast to the space's {dtype} (same_kind)")
        array = array.astype(dtype)
    return output.array(array_head(dtype, array.shape), array.nbytes, (bytes_of(array),))


def row_of(space: Any, batch: Any, row: int) -> Any:
    """One row of a batch that Gymnasium's batched space describes."""
    kind = space_kind(space) if space is not None else "Custom"
    if kind == "Dict":
        return {key: row_of(one, batch[key], row) for key, one in space.spaces.items()}
    if kind == "Tuple":
        return tuple(row_of(one, part, row) for one, part in zip(space.spaces, batch))
    return batch[row]
