"""Infos of single environments as the batched infos of Gymnasium's vector environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sandpool.gymnasium.versions import BEFORE_1, FINAL_OBSERVATION

Array = np.ndarray[Any, np.dtype[Any]]

# Kept as they are, one object for each environment, whatever they hold.
_UNBATCHED = frozenset({FINAL_OBSERVATION, "sandpool_error"})
_NUMBER_TYPES = (int, float, bool)
_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def batch_infos(infos: Mapping[int, Mapping[str, Any]], n: int) -> dict[str, Any]:
    """Batch the infos of some of n environments: for each key an array of n, and under ``_key`` a bool mask of who has it.

    The layout is that of the installed Gymnasium's `VectorEnv._add_info`: numbers in an array of the first one's type, zero for
    the others; from 1.0 on arrays stacked to ``(n, …)`` and dicts batched in turn; anything else in an object array, None for the
    others. Where that method loses digits or raises, for values of a key that do not go together, this one does neither: numbers
    take the wider type, everything else becomes an object array.

    >>> batch_infos({0: {"lives": 3}, 2: {"lives": 2.5}}, 3)
    {'lives': array([3. , 0. , 2.5]), '_lives': array([ True, False,  True])}
    """
    columns: dict[str, tuple[list[int], list[Any]]] = {}
    for row, info in infos.items():
        for key, value in info.items():
            rows, values = columns.setdefault(key, ([], []))
            rows.append(row)
            values.append(value)
    batched: dict[str, Any] = {}
    for key, (rows, values) in columns.items():
        mask = np.zeros(n, np.bool_)
        mask[rows] = True
        batched[key] = _object_column(rows, values, n) if key in _UNBATCHED else _column(rows, values, n)
        batched[f"_{key}"] = mask
    return batched


def _column(rows: list[int], values: list[Any], n: int) -> Any:
    kinds = set(map(type, values))
    if all(kind in _NUMBER_TYPES or issubclass(kind, np.number) for kind in kinds):
        return _number_column(rows, values, kinds, n)
    if not BEFORE_1 and all(issubclass(kind, dict) for kind in kinds):
        return batch_infos(dict(zip(rows, values, strict=True)), n)
    if not BEFORE_1 and all(issubclass(kind, np.ndarray) for kind in kinds) and len({value.shape for value in values}) == 1:
        return _array_column(rows, values, n)
    return _object_column(rows, values, n)


def _number_column(rows: list[int], values: list[Any], kinds: set[type], n: int) -> Array:
    first = np.dtype(type(values[0]))
    dtypes = {np.dtype(kind) for kind in kinds}
    for dtype in (_common_dtype(first, dtypes), np.result_type(*dtypes)):
        if dtype.kind not in "iu" or (np.iinfo(dtype).min <= min(values) and max(values) <= np.iinfo(dtype).max):
            column = np.zeros(n, dtype)
            column[rows] = values
            return column
    return _object_column(rows, values, n)


def _array_column(rows: list[int], values: list[Array], n: int) -> Array:
    dtypes = {value.dtype for value in values}
    if len(dtypes) > 1 and not all(dtype.kind in _KINDS for dtype in dtypes) and len({dtype.kind for dtype in dtypes}) > 1:
        return _object_column(rows, values, n)
    dtype = _common_dtype(values[0].dtype, dtypes)
    column = np.zeros((n, *values[0].shape), dtype)
    column[rows] = values
    return column


def _common_dtype(first: np.dtype[Any], dtypes: set[np.dtype[Any]]) -> np.dtype[Any]:
    """Return the first one's dtype, as Gymnasium has it, unless another is of a wider kind; then what holds them all."""
    return first if all(_fits_kind(other, first) for other in dtypes) else np.result_type(*dtypes)


def _fits_kind(other: np.dtype[Any], first: np.dtype[Any]) -> bool:
    if other.kind in _KINDS and first.kind in _KINDS:
        return _KINDS[other.kind] <= _KINDS[first.kind]
    return np.can_cast(other, first, "safe")


def _object_column(rows: list[int], values: list[Any], n: int) -> Array:
    column = np.full(n, None, object)
    for row, value in zip(rows, values, strict=True):
        column[row] = value
    return column
