"""Announced spaces as gymnasium's own. Needs gymnasium, which the rest of the client does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sandpool.errors import NotSupportedError
from sandpool.values.dtypes import dtype_of

if TYPE_CHECKING:
    import gymnasium

Described = dict[str, Any]


def to_gymnasium(space: Described) -> gymnasium.Space[Any]:
    """Make the gymnasium space that a plain dict such as ``pool.action_space`` describes.

    Raises:
        ImportError: gymnasium is not installed.
        NotSupportedError: a space class of the environment's own, which only its repr describes.

    Example:
        >>> to_gymnasium({"type": "Discrete", "n": 2, "start": 0, "dtype": "<i8"})  # doctest: +SKIP
        Discrete(2)
    """
    make = _MAKERS.get(space["type"])
    if make is None:
        raise NotSupportedError(
            f"The space {space.get('repr', space['type'])!r:.200} is not one of gymnasium's own and cannot be made here."
        )
    return make(space)


def _box(space: Described) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    dtype = dtype_of(space["dtype"])
    shape = tuple(space["shape"])
    low, high = (np.asarray(space[bound], dtype).reshape(shape) for bound in ("low", "high"))
    return spaces.Box(low, high, shape, dtype.type)


def _discrete(space: Described) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    return spaces.Discrete(int(space["n"]), start=int(space.get("start", 0)))


def _multi_discrete(space: Described) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    dtype = dtype_of(space.get("dtype", "<i8"))
    start = space.get("start")
    return spaces.MultiDiscrete(np.asarray(space["nvec"], dtype), dtype.type, start=None if start is None else np.asarray(start, dtype))


def _multi_binary(space: Described) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    size = space["n"]
    return spaces.MultiBinary(int(size) if np.ndim(size) == 0 else [int(length) for length in size])


def _text(space: Described) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    return spaces.Text(int(space["max"]), min_length=int(space["min"]), charset=space["charset"])


def _dict(space: Described) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    return spaces.Dict([(name, to_gymnasium(part)) for name, part in space["spaces"]])


def _tuple(space: Described) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    return spaces.Tuple([to_gymnasium(part) for part in space["spaces"]])


def _one_of(space: Described) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    return spaces.OneOf([to_gymnasium(part) for part in space["spaces"]])


def _sequence(space: Described) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    return spaces.Sequence(to_gymnasium(space["space"]), stack=bool(space.get("stack", False)))


def _graph(space: Described) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    edge = space.get("edge")
    return spaces.Graph(to_gymnasium(space["node"]), None if edge is None else to_gymnasium(edge))


_MAKERS: dict[str, Callable[[Described], gymnasium.Space[Any]]] = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": _multi_binary,
    "Text": _text,
    "Dict": _dict,
    "Tuple": _tuple,
    "OneOf": _one_of,
    "Sequence": _sequence,
    "Graph": _graph,
}
