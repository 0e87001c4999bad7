"""The actions of several rows: cast at once where they came as one array, one by one else."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sandpool.env.casting import caster_of
from sandpool.env.decoding import decode
from sandpool.env.describing import space_kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Spread = Callable[[Any], Any]


class ActionCaster:
    """Actions of one space, as iterating Gymnasium's batched space gives them."""

    def __init__(self, space: Any) -> None:
        self.cast = caster_of(space)
        self.spread = _spread_of(space)

    def cast_rows(self, form: Any, raw: bytes, count: int) -> tuple[list[Any], list[int]]:
        """The actions, and the places of those that do not fit, where an exception stands. Raises ValueError for another number."""
        fitting = self.batch(form, raw, count)
        if fitting is not None:
            return list(fitting), []
        items = decode(form, raw) if type(form) is dict else form
        _check_count(items, count)
        return self.cast_each(items, raw)

    def batch(self, form: Any, raw: bytes, count: int) -> Any:
        """The array of all actions where they came as one that fits, else None."""
        if type(form) is dict and "$nd" in form and len(form) == 1:
            items = decode(form, raw)
            _check_count(items, count)
            return self.spread(items)
        return None

    def cast_each(self, items: Any, raw: bytes) -> tuple[list[Any], list[int]]:
        actions, misfits = [], []
        for place, item in enumerate(items):
            try:
                actions.append(self.cast(item, raw))
            except Exception as error:
                actions.append(error)
                misfits.append(place)
        return actions, misfits


def _check_count(items: Any, count: int) -> None:
    sequence = type(items) is list or getattr(items, "ndim", 0) > 0
    if not sequence or len(items) != count:
        raise ValueError(f"received the actions {items!r:.200}; expected a list or $nd of {count}, one for each row")


def _spread_of(space: Any) -> Spread:
    """A function from the array of all actions to the single ones, None where they must be looked at one by one."""
    kind = space_kind(space) if space is not None else None
    if kind is None:
        return _spread_plain
    if kind not in ("Box", "Discrete", "MultiDiscrete", "MultiBinary"):
        return lambda items: None
    dtype, shape = space.dtype, tuple(space.shape or ())
    whole = dtype.kind in "iub"
    numpy = sys.modules["numpy"]

    def spread(items: Any) -> Any:
        if items.shape[1:] != shape or items.dtype.kind not in "biuf":
            return None
        array = items.astype(dtype, copy=False)
        return array if items.dtype == dtype or not whole or numpy.array_equal(array, items) else None

    return spread


def _spread_plain(items: Any) -> Any:
    """Without a space: scalars are plain numbers, as they are for one row."""
    dtype = getattr(items, "dtype", None)
    return items if dtype is None or items.ndim > 1 or dtype.kind not in "iuf" else items.tolist()
