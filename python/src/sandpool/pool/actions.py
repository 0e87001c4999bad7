"""The `actions` argument of a step: checked, then one numeric array or a list of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sandpool.errors import InvalidTypeError, InvalidValueError
from sandpool.pool.selection import Selection
from sandpool.values.dtypes import is_portable

Array = np.ndarray[Any, np.dtype[Any]]
Space = dict[str, Any] | None

_NARROWED_FROM_BYTES = 8192
_NUMERIC = ("Discrete", "MultiBinary", "MultiDiscrete", "Box")
# Numpy's letters for bytes, text, records, durations and times.
_NO_NUMBERS = "SUVmM"


def read_actions(actions: object, selection: Selection, n: int, space: Space) -> Array | list[Any]:
    """Return the actions of the selected rows, ascending: one array, or a list if they are not numbers of one dtype and shape.

    An array comes back C-contiguous and little-endian. Many actions of a Discrete space, whose dtype an environment gets whatever is
    sent, come back as int8 where that holds them: an eighth of the bytes on the way.

    `actions` has one item for each selected row, in the order of `where`, or one for each of the n rows, of which those of
    unselected rows are ignored. A dict of arrays is taken for a Dict space, a tuple of arrays for a Tuple space.
    """
    kind = space["type"] if space else None
    if kind == "Dict" and isinstance(actions, dict):
        actions = _rows_of_dict(actions, space, n, selection.count)
    elif kind == "Tuple" and isinstance(actions, tuple) and _are_columns(actions, space, n, selection.count):
        actions = [tuple(row) for row in zip(*actions, strict=True)]
    batch: Array | list[Any] = actions if isinstance(actions, np.ndarray) else _as_array(actions)
    chosen = _choose_rows(batch, selection, n)
    if not isinstance(chosen, np.ndarray):
        _check_items(space, chosen, selection)
        return chosen
    _check_array(space, chosen, selection)
    if not is_portable(chosen.dtype) or chosen.dtype.kind not in "biufc":
        return list(chosen)
    little = chosen if chosen.dtype.byteorder != ">" else chosen.astype(chosen.dtype.newbyteorder("<"))
    if kind == "Discrete" and little.dtype.kind in "iu" and little.nbytes >= _NARROWED_FROM_BYTES:
        narrow = little.astype(np.int8)
        little = narrow if np.array_equal(narrow, little) else little
    return np.ascontiguousarray(little)


def _as_array(actions: object) -> Array | list[Any]:
    if isinstance(actions, (str, bytes, dict, set)) or not (isinstance(actions, Sequence) or hasattr(actions, "__array__")):
        raise InvalidTypeError(
            f"actions is of type {type(actions).__name__}; expected an array or a list with one action for each row.",
            hint="For one environment write pool.step([action]).",
        )
    if not isinstance(actions, Sequence):
        return np.asarray(actions)
    kinds = set(map(type, actions))
    if len(kinds) != 1:
        return list(actions)
    (kind,) = kinds
    if kind is int or kind is float or issubclass(kind, np.generic):
        try:
            array = np.array(actions)
        except (OverflowError, ValueError):
            return list(actions)
        # Integers beyond 64 bits and scalars of mixed dtypes become objects or lose digits; as a list they stay what they are.
        return array if array.dtype.kind in "biuf" and not (kind is int and array.dtype.kind == "f") else list(actions)
    if kind is np.ndarray or hasattr(kind, "__array__"):
        items = [np.asarray(item) for item in actions]
        same = len({(item.dtype, item.shape) for item in items}) == 1
        return np.stack(items) if same and items[0].dtype.kind in "biufc" else list(items)
    return list(actions)


def _choose_rows(batch: Array | list[Any], selection: Selection, n: int) -> Array | list[Any]:
    if isinstance(batch, np.ndarray) and batch.ndim == 0:
        raise InvalidTypeError(f"actions is the scalar {batch[()]!r}; expected one action for each of {selection.count} rows.")
    received = len(batch)
    if received == selection.count:
        places = selection.order
    elif received == n:
        places = selection.rows
    else:
        also = "" if selection.count == n else f", or one for each of the pool's {n} rows"
        raise InvalidValueError(
            f"{received} actions were given; expected {selection.count}, one for each selected row{also}.", hint="Nothing was sent."
        )
    if places is None:
        return batch
    return batch[places] if isinstance(batch, np.ndarray) else [batch[place] for place in places.tolist()]


def _check_array(space: Space, batch: Array, selection: Selection) -> None:
    if space is None or space["type"] not in _NUMERIC:
        return
    kind, shape = space["type"], _shape_of(space)
    if batch.shape[1:] != shape:
        raise InvalidValueError(f"actions has shape {batch.shape}; expected {(len(batch), *shape)} for the action space {kind}.")
    if batch.dtype.kind in _NO_NUMBERS or batch.dtype.kind == "O":
        _check_items(space, batch.tolist(), selection)
    elif batch.dtype.kind in _refused_kinds(space):
        raise InvalidTypeError(
            f"actions has dtype {batch.dtype}; expected {_expected(space)}.",
            hint="Round them yourself, e.g. astype(int)." if batch.dtype.kind == "f" else None,
        )


def _check_items(space: Space, actions: list[Any], selection: Selection) -> None:
    """Refuse text, and what else is plainly no number of the space; numbers in other forms than arrays are the pool's to judge."""
    if space is None or space["type"] not in _NUMERIC:
        return
    refused = _refused_kinds(space)
    if _kind_of(actions) not in f"O{refused}":
        return
    for row, action in zip(selection.indices(), actions, strict=True):
        if _kind_of(action) in refused:
            raise InvalidTypeError(f"The action of row {row} is {action!r:.80}; expected {_expected(space)}.", hint="Nothing was sent.")


def _kind_of(value: object) -> str:
    """Return numpy's letter for the kind of a number, or of numbers in lists; O where it has none."""
    try:
        return "O" if isinstance(value, dict) else np.asarray(value).dtype.kind
    except (ValueError, OverflowError):
        return "O"


def _refused_kinds(space: dict[str, Any]) -> str:
    return f"{_NO_NUMBERS}c{'f' if _is_integral(space) else ''}"


def _is_integral(space: dict[str, Any]) -> bool:
    return space["type"] != "Box" or np.dtype(str(space.get("dtype", "<f4"))).kind in "iub"


def _expected(space: dict[str, Any]) -> str:
    return f"{'integers' if _is_integral(space) else 'numbers'} for the action space {space['type']}"


def _shape_of(space: dict[str, Any]) -> tuple[int, ...]:
    if space["type"] == "Discrete":
        return ()
    if space["type"] == "MultiDiscrete":
        return tuple(np.shape(space["nvec"]))
    if space["type"] == "MultiBinary":
        return tuple(np.atleast_1d(np.asarray(space["n"])).tolist())
    return tuple(space["shape"])


def _rows_of_dict(actions: dict[Any, Any], space: Space, n: int, count: int) -> list[dict[str, Any]]:
    names = [name for name, _ in space["spaces"]] if space else []
    if set(actions) != set(names):
        raise InvalidValueError(f"actions has the keys {list(actions)!r:.200}; expected those of the Dict space, {names!r:.200}.")
    lengths = {name: len(actions[name]) for name in names}
    if len(set(lengths.values())) > 1 or not set(lengths.values()) <= {n, count}:
        raise InvalidValueError(f"actions has columns of the lengths {lengths}; expected {count} in each.")
    return [dict(zip(names, row, strict=True)) for row in zip(*(actions[name] for name in names), strict=True)]


def _are_columns(actions: tuple[Any, ...], space: Space, n: int, count: int) -> bool:
    columns = len(space["spaces"]) if space else 0
    return len(actions) == columns and all(hasattr(column, "__len__") and len(column) in (n, count) for column in actions)
