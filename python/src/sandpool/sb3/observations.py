"""Observations in the layout and with the dtypes of their space."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from sandpool.errors import InvalidValueError

Space = spaces.Space[Any]


def fit_batch(space: Space, observations: Any) -> Any:
    """Return observations of n rows as the space has them: an array ``(n, …)``, or a dict or tuple of such.

    Raises InvalidValueError for another shape, which only a space given by hand can have.
    """
    if isinstance(space, spaces.Dict):
        return {name: fit_batch(part, observations[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(fit_batch(part, column) for part, column in zip(space.spaces, observations, strict=True))
    if observations.shape[1:] != space.shape:
        raise InvalidValueError(f"Observations have the shape {observations.shape[1:]}; expected {space.shape}, that of {space}.")
    return observations.astype(space.dtype, copy=False)


def fit_one(space: Space, observation: Any) -> Any:
    """Return the observation of one row, as it came in an info, with the dtype of the space."""
    if isinstance(space, spaces.Dict):
        return {name: fit_one(part, observation[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(fit_one(part, item) for part, item in zip(space.spaces, observation, strict=True))
    return np.asarray(observation, space.dtype)[()]


def take_row(observations: Any, row: int) -> Any:
    """Return a copy of one row's observation."""
    if isinstance(observations, dict):
        return {name: take_row(column, row) for name, column in observations.items()}
    if isinstance(observations, tuple):
        return tuple(take_row(column, row) for column in observations)
    return observations[row].copy()
