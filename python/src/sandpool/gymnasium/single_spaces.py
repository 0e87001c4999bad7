"""The spaces of one environment: given by the caller, announced by the environment, or read off the pool's observations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from sandpool.errors import InvalidTypeError
from sandpool.gymnasium.opaque import OpaqueSpace
from sandpool.spaces import to_gymnasium
from sandpool.values.dtypes import dtype_of

Space = gymnasium.Space[Any]


def observation_space_of(given: Space | None, description: dict[str, Any]) -> Space:
    """Return the observation space of one environment."""
    announced = description["observation_space"]
    if given is not None or announced is not None:
        return _given_or_announced("observation_space", given, announced)
    layout = description["layout"]
    if layout["kind"] == "list":
        return OpaqueSpace("no observation space was announced")
    return _space_of_tree(layout["tree"], layout["fields"])


def action_space_of(given: Space | None, description: dict[str, Any]) -> Space:
    """Return the action space of one environment."""
    return _given_or_announced("action_space", given, description["action_space"])


def _given_or_announced(name: str, given: Space | None, announced: dict[str, Any] | None) -> Space:
    if given is not None:
        if not isinstance(given, gymnasium.Space):
            raise InvalidTypeError(f"{name} is of type {type(given).__name__}; expected a gymnasium.Space of one environment.")
        return given
    if announced is None:
        return OpaqueSpace(f"no {name.replace('_', ' ')} was announced")
    return to_gymnasium(announced, custom=OpaqueSpace)


def _space_of_tree(tree: dict[str, Any], fields: list[dict[str, Any]]) -> Space:
    if "dict" in tree:
        return gymnasium.spaces.Dict([(name, _space_of_tree(branch, fields)) for name, branch in tree["dict"]])
    if "tuple" in tree:
        return gymnasium.spaces.Tuple([_space_of_tree(branch, fields) for branch in tree["tuple"]])
    field = fields[tree["field"]]
    dtype, shape = dtype_of(field["dtype"]), tuple(field["shape"])
    if dtype.kind == "f":
        return gymnasium.spaces.Box(-np.inf, np.inf, shape, dtype.type)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return gymnasium.spaces.Box(np.full(shape, limits.min, dtype), np.full(shape, limits.max, dtype), shape, dtype.type)
    if dtype.kind == "b":
        return gymnasium.spaces.Box(np.zeros(shape, dtype), np.ones(shape, dtype), shape, dtype.type)
    return OpaqueSpace(f"an array of {dtype} {shape}")
