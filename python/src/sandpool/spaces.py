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
Custom = Callable[[str], "gymnasium.Space[Any]"]


def to_gymnasium(space: Described, custom: Custom | None = None) -> gymnasium.Space[Any]:
    """Make the gymnasium space that a plain dict such as ``pool.action_space`` describes.

    Args:
        space: the description.
        custom: makes what stands for a space class of the environment's own, from its repr.

    Raises:
        ImportError: gymnasium is not installed.
        NotSupportedError: without `custom`, a space class of the environment's own, which only its repr describes; or a space
            that the installed gymnasium does not have.

    Example:
        >>> to_gymnasium({"type": "Discrete", "n": 2, "start": 0, "dtype": "<i8"})  # doctest: +SKIP
        Discrete(2)
    """
    make = _MAKERS.get(space["type"])
    if make is not None:
        return make(space, custom)
    written = str(space.get("repr", space["type"]))
    if custom is not None:
        return custom(written)
    raise NotSupportedError(f"The space {written!r:.200} is not one of gymnasium's own and cannot be made here.")


def _box(space: Described, custom: Custom | None) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    dtype = dtype_of(space["dtype"])
    shape = tuple(space["shape"])
    low, high = (np.asarray(space[bound], dtype).reshape(shape) for bound in ("low", "high"))
    return spaces.Box(low, high, shape, dtype.type)


def _discrete(space: Described, custom: Custom | None) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    dtype = dtype_of(space.get("dtype", "<i8"))
    # gymnasium has had other dtypes than int64 here since 1.2.
    other: dict[str, Any] = {} if dtype == np.int64 else {"dtype": dtype.type}
    try:
        return spaces.Discrete(int(space["n"]), start=int(space.get("start", 0)), **other)
    except TypeError:
        return spaces.Discrete(int(space["n"]), start=int(space.get("start", 0)))


def _multi_discrete(space: Described, custom: Custom | None) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    dtype = dtype_of(space.get("dtype", "<i8"))
    start = space.get("start")
    return spaces.MultiDiscrete(np.asarray(space["nvec"], dtype), dtype.type, start=None if start is None else np.asarray(start, dtype))


def _multi_binary(space: Described, custom: Custom | None) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    size = space["n"]
    return spaces.MultiBinary(int(size) if np.ndim(size) == 0 else [int(length) for length in size])


def _text(space: Described, custom: Custom | None) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    return spaces.Text(int(space["max"]), min_length=int(space["min"]), charset=space["charset"])


def _dict(space: Described, custom: Custom | None) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    return spaces.Dict([(name, to_gymnasium(part, custom)) for name, part in space["spaces"]])


def _tuple(space: Described, custom: Custom | None) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    return spaces.Tuple([to_gymnasium(part, custom) for part in space["spaces"]])


def _one_of(space: Described, custom: Custom | None) -> gymnasium.Space[Any]:
    import gymnasium

    if not hasattr(gymnasium.spaces, "OneOf"):
        raise NotSupportedError(
            f"The space OneOf is unknown to the installed gymnasium {gymnasium.__version__}.", hint="Install gymnasium 1.0 or newer."
        )
    return gymnasium.spaces.OneOf([to_gymnasium(part, custom) for part in space["spaces"]])


def _sequence(space: Described, custom: Custom | None) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    return spaces.Sequence(to_gymnasium(space["space"], custom), stack=bool(space.get("stack", False)))


def _graph(space: Described, custom: Custom | None) -> gymnasium.Space[Any]:
    from gymnasium import spaces

    edge = space.get("edge")
    return spaces.Graph(to_gymnasium(space["node"], custom), None if edge is None else to_gymnasium(edge, custom))


_MAKERS: dict[str, Callable[[Described, Custom | None], gymnasium.Space[Any]]] = {
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
