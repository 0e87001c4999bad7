"""The arguments of a vector environment's reset: seeds for all rows, and the mask of a partial reset among the options."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from sandpool.errors import InvalidTypeError, InvalidValueError


def read_seeds(seed: Any, n: int) -> Any:
    """Return None, one integer (row i gets ``seed + i``) or a list of n integers or None; another length is an InvalidValueError."""
    if seed is None or isinstance(seed, numbers.Integral):
        return seed
    seeds = seed.tolist() if isinstance(seed, np.ndarray) else seed
    if not isinstance(seeds, (list, tuple)):
        raise InvalidTypeError(f"seed is of type {type(seed).__name__}; expected None, an integer, or a list of {n} integers or None.")
    if len(seeds) != n:
        raise InvalidValueError(
            f"If seeds are passed as a list the length must match num_envs={n} but got length={len(seeds)}.",
            hint="None stands for an environment without a seed.",
        )
    return list(seeds)


def read_options(options: Any, n: int) -> tuple[Any, Any]:
    """Return the options for the environments and the rows to reset, None for all; the caller's own options stay as they are.

    Raises InvalidTypeError and InvalidValueError as Gymnasium 1.4 does for a `reset_mask` that is no bool array ``(n,)`` with a True.
    """
    if options is None or not isinstance(options, Mapping) or "reset_mask" not in options:
        return (dict(options) if isinstance(options, Mapping) else options), None
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray):
        raise InvalidTypeError(f"`options['reset_mask']` must be a numpy array, got {type(mask)}")
    if mask.shape != (n,):
        raise InvalidValueError(f"`options['reset_mask']` must have shape `({n},)`, got {mask.shape}")
    if mask.dtype != np.bool_:
        raise InvalidTypeError(f"`options['reset_mask']` must have `dtype=np.bool_`, got {mask.dtype}")
    if not mask.any():
        raise InvalidValueError(f"`options['reset_mask']` must contain a boolean array with at least one True value, got reset_mask={mask}")
    return {name: value for name, value in options.items() if name != "reset_mask"}, mask.copy()
