"""Values from the wire as members of a space: the types that Gymnasium's own environments would have returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

Space = spaces.Space[Any]
Convert = Callable[[Any, Any], Any]


def member_of(space: Space, value: Any) -> Any:
    """Return `value` as a member of `space`, as far as it has the right form; anything else comes back as it is.

    Lists, which programs of other languages send, become arrays of the space's dtype; a graph becomes Gymnasium's GraphInstance.
    """
    for kind, convert in _CONVERTERS:
        if isinstance(space, kind):
            try:
                return convert(space, value)
            except (TypeError, ValueError, KeyError, IndexError, OverflowError):
                return value
    return value


def zero_member_of(space: Any) -> Any:
    """Return what a row shows that never had a good observation: zeros, the empty text, the empty sequence."""
    if isinstance(space, spaces.Dict):
        return {name: zero_member_of(part) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(zero_member_of(part) for part in space.spaces)
    if isinstance(space, spaces.Text):
        return next(iter(space.characters), "") * space.min_length
    if isinstance(space, spaces.Sequence):
        return _nothing(space.feature_space) if _stacks_arrays(space) else ()
    if isinstance(space, spaces.Graph):
        return spaces.GraphInstance(_nothing(space.node_space), None, None)
    if type(space).__name__ == "OneOf":
        return np.int64(0), zero_member_of(space.spaces[0])
    if space.shape is None or space.dtype is None:
        return None
    return np.zeros(space.shape, space.dtype)[()] if space.shape == () else np.zeros(space.shape, space.dtype)


def _nothing(space: Any) -> Any:
    return np.zeros((0, *space.shape), space.dtype)


def _array(space: Any, value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype == space.dtype:
        return value
    array = np.asarray(value)
    if array.shape != space.shape or array.dtype.kind not in "biuf":
        return value
    return array.astype(space.dtype)


def _discrete(space: Any, value: Any) -> Any:
    # A float or a text is no member, whatever it could be turned into.
    return value if isinstance(value, (bool, float, str)) else space.dtype.type(value)


def _dict(space: Any, value: Any) -> Any:
    return {name: member_of(part, value[name]) for name, part in space.spaces.items()} if value.keys() == space.spaces.keys() else value


def _tuple(space: Any, value: Any) -> Any:
    if not isinstance(value, (tuple, list)) or len(value) != len(space.spaces):
        return value
    return tuple(member_of(part, item) for part, item in zip(space.spaces, value, strict=True))


def _sequence(space: Any, value: Any) -> Any:
    if not isinstance(value, (tuple, list)):
        return value
    if _stacks_arrays(space):
        return np.asarray(value, space.feature_space.dtype)
    return value if getattr(space, "stack", False) else tuple(member_of(space.feature_space, item) for item in value)


def _graph(space: Any, value: Any) -> Any:
    nodes, edges, links = value
    edge_dtype = None if space.edge_space is None else space.edge_space.dtype
    return spaces.GraphInstance(_part(nodes, space.node_space.dtype), _part(edges, edge_dtype), _part(links, None))


def _part(value: Any, dtype: Any) -> Any:
    return value if value is None or isinstance(value, (np.ndarray, dict, tuple)) else np.asarray(value, dtype)


def _one_of(space: Any, value: Any) -> Any:
    which, item = value
    return np.int64(which), member_of(space.spaces[int(which)], item)


def _stacks_arrays(space: Any) -> bool:
    return bool(getattr(space, "stack", False)) and isinstance(space.feature_space, _ARRAYS)


_ARRAYS = (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Discrete)
_CONVERTERS: list[tuple[Any, Convert]] = [
    ((spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary), _array),
    (spaces.Discrete, _discrete),
    (spaces.Dict, _dict),
    (spaces.Tuple, _tuple),
    (spaces.Sequence, _sequence),
    (spaces.Graph, _graph),
]
if hasattr(spaces, "OneOf"):
    _CONVERTERS.append((spaces.OneOf, _one_of))
