"""A pool's observations as Gymnasium batches them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from sandpool.errors import InvalidValueError
from sandpool.gymnasium.members import member_of, zero_member_of
from sandpool.gymnasium.versions import BEFORE_1

Space = spaces.Space[Any]


class BatchedObservations:
    """Turns what the pool returns into elements of the batched space of ``single``.

    An array pool's arrays are passed on when they have the space's dtypes already; a list pool's values are put together by
    Gymnasium's own `concatenate`.
    """

    def __init__(self, single: Space, layout: dict[str, Any], n: int) -> None:
        self._single = single
        self._n = n
        self._is_list = layout["kind"] == "list"
        if not self._is_list:
            self._passes = not (BEFORE_1 and _has_dict(single)) and _same(single, layout["tree"], layout["fields"])

    def of(self, observations: Any) -> Any:
        """Return all rows' observations as one batch."""
        if self._is_list:
            return self._concatenated(observations)
        return observations if self._passes else _cast(self._single, observations)

    def row(self, observations: Any, index: int) -> Any:
        """Return one row's observation out of the pool's, a copy that is a member of the single space."""
        if self._is_list:
            return self.member(observations[index])
        return member_of(self._single, _item(observations, index))

    def member(self, value: Any) -> Any:
        """Return one row's observation, as it came, as a member of the single space; None, which it never is, as zeros."""
        return zero_member_of(self._single) if value is None else member_of(self._single, value)

    def _concatenated(self, values: list[Any]) -> Any:
        items = [self.member(value) for value in values]
        empty: Any = create_empty_array(self._single, n=self._n, fn=np.zeros)
        return concatenate(self._single, items, empty)


def _item(observations: Any, index: int) -> Any:
    if isinstance(observations, dict):
        return {name: _item(part, index) for name, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_item(part, index) for part in observations)
    return observations[index].copy() if observations.ndim > 1 else observations[index]


def _cast(space: Space, observations: Any) -> Any:
    if isinstance(space, spaces.Dict):
        parts = {name: _cast(part, observations[name]) for name, part in space.spaces.items()}
        return OrderedDict(parts) if BEFORE_1 else parts
    if isinstance(space, spaces.Tuple):
        return tuple(_cast(part, item) for part, item in zip(space.spaces, observations, strict=True))
    return observations if space.dtype is None else observations.astype(space.dtype, copy=False)


def _has_dict(space: Space) -> bool:
    return isinstance(space, spaces.Dict) or (isinstance(space, spaces.Tuple) and any(map(_has_dict, space.spaces)))


def _same(space: Space, tree: dict[str, Any], fields: list[dict[str, Any]]) -> bool:
    """Whether the layout has the space's dtypes; raises where it has another structure or shape."""
    if "dict" in tree and isinstance(space, spaces.Dict):
        branches = dict(tree["dict"])
        if branches.keys() == space.spaces.keys():
            same = [_same(part, branches[name], fields) for name, part in space.spaces.items()]
            return all(same)
    elif "tuple" in tree and isinstance(space, spaces.Tuple):
        if len(tree["tuple"]) == len(space.spaces):
            same = [_same(part, branch, fields) for part, branch in zip(space.spaces, tree["tuple"], strict=True)]
            return all(same)
    elif "field" in tree and (space.shape is None or tuple(fields[tree["field"]]["shape"]) == space.shape):
        return space.dtype is None or np.dtype(fields[tree["field"]]["dtype"]) == space.dtype
    raise InvalidValueError(
        f"observation_space {space!r:.200} does not fit the pool's observations, which are {_written(tree, fields)}.",
        hint="Give the space of one environment, with the environment's own shapes.",
    )


def _written(tree: dict[str, Any], fields: list[dict[str, Any]]) -> str:
    if "field" in tree:
        field = fields[tree["field"]]
        return f"{field['dtype']} {tuple(field['shape'])}"
    if "dict" in tree:
        return "{" + ", ".join(f"{name!r}: {_written(branch, fields)}" for name, branch in tree["dict"]) + "}"
    return "(" + ", ".join(_written(branch, fields) for branch in tree["tuple"]) + ")"
