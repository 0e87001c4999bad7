"""Batched actions, taken apart exactly as iterating Gymnasium's batched action space does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import iterate

from sandpool.errors import InvalidTypeError, InvalidValueError

_ARRAYS = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)

Space = spaces.Space[Any]
ReadActions = Callable[[Any], Any]


def action_reader(single: Space, batched: Space, n: int) -> ReadActions:
    """Return read(actions) for a vector environment of n rows: one array ``(n, …)`` in the space's dtype, or a list of n actions.

    Reading raises InvalidTypeError for one action instead of n, and InvalidValueError for another number than n. Numbers are cast
    where numpy calls it the same kind (float64 to float32, int32 to int64); others are left for the pool to refuse.
    """
    if isinstance(single, _ARRAYS):
        return lambda actions: _read_array(actions, np.dtype(single.dtype), n)
    return lambda actions: _read_items(actions, batched, n)


def _read_array(actions: Any, dtype: np.dtype[Any], n: int) -> Any:
    try:
        array = np.asarray(actions)
    except ValueError as error:
        raise InvalidValueError(f"actions cannot be one array of {n} rows: {error}.", hint="Nothing was sent.") from error
    if array.ndim == 0:
        raise InvalidTypeError(
            f"actions is {actions!r:.80}, one action; expected one for each of {n} environments.",
            hint="For one environment write [action].",
        )
    if len(array) != n:
        raise _wrong_count(len(array), n)
    if array.dtype != dtype and array.dtype.kind in "biuf" and np.can_cast(array.dtype, dtype, "same_kind"):
        return array.astype(dtype)
    return array


def _read_items(actions: Any, batched: Space, n: int) -> list[Any]:
    if isinstance(actions, (int, float, np.generic)) or (isinstance(actions, np.ndarray) and actions.ndim == 0):
        raise InvalidTypeError(f"actions is the scalar {actions!r:.80}; expected one action for each of {n} environments.")
    try:
        items = list(iterate(batched, actions))
    except (ValueError, IndexError) as error:
        raise InvalidValueError(f"actions does not have {n} actions for {batched!r:.200}: {error}.", hint="Nothing was sent.") from error
    if len(items) != n:
        raise _wrong_count(len(items), n)
    return items


def _wrong_count(received: int, n: int) -> InvalidValueError:
    return InvalidValueError(f"{received} actions were given; expected {n}, one for each environment.", hint="Nothing was sent.")
