"""The `where` argument: which rows a call is for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sandpool.errors import InvalidValueError

Rows = npt.NDArray[np.int64]


class Selection:
    """The selected rows.

    Attributes:
        rows: their indices, ascending; None when every row is selected.
        order: for indices that were not ascending, the place of each of `rows` in the caller's list; else None.
        count: how many there are.
    """

    __slots__ = ("count", "order", "rows")

    def __init__(self, rows: Rows | None, order: Rows | None, count: int) -> None:
        self.rows = rows
        self.order = order
        self.count = count

    def on_wire(self) -> list[int] | None:
        """Return the indices for a request."""
        return None if self.rows is None else self.rows.tolist()

    def indices(self) -> range | list[int]:
        """Return the indices, ascending, also when every row is selected."""
        return range(self.count) if self.rows is None else self.rows.tolist()


def select_rows(where: object, n: int, name: str = "where") -> Selection:
    """Read `where`, or an argument of another name: None for all rows, a bool mask of shape ``(n,)``, or unique indices in ``0..n-1``.

    Raises InvalidValueError, naming what was received and what was expected.
    """
    if where is None:
        return Selection(None, None, n)
    try:
        array: npt.NDArray[Any] = np.asarray(where)
    except ValueError as error:
        raise InvalidValueError(f"{name}= is {where!r:.100}, which is neither a mask nor a list of indices.") from error
    if array.ndim != 1:
        raise InvalidValueError(
            f"{name}= is {where!r:.100}, of shape {array.shape}; expected a bool mask of shape ({n},) or a list of row indices."
        )
    if array.dtype == np.bool_:
        return _from_mask(array, n, name)
    if array.size == 0:
        return Selection(np.empty(0, np.int64), None, 0)
    if array.dtype.kind not in "iu":
        raise InvalidValueError(
            f"{name}= is {where!r:.100}, of dtype {array.dtype}; expected bool (a mask of shape ({n},)) or integers (row indices)."
        )
    # In an array numpy would have made the bools of a mixed list 0 and 1, indices of rows nobody asked for.
    if isinstance(where, (list, tuple)) and any(isinstance(item, (bool, np.bool_)) for item in where):
        raise InvalidValueError(
            f"{name}= is {where!r:.100}, bools and integers mixed; expected a mask of {n} bools or a list of row indices."
        )
    return _from_indices(array, n, name)


def _from_mask(mask: npt.NDArray[np.bool_], n: int, name: str) -> Selection:
    if mask.shape != (n,):
        raise InvalidValueError(f"{name}= is a mask of {mask.size} rows; the pool has {n}.", hint="A mask has one bool for each row.")
    rows = np.flatnonzero(mask)
    return Selection(None if rows.size == n else rows, None, rows.size)


def _from_indices(given: npt.NDArray[Any], n: int, name: str) -> Selection:
    low, high = int(given.min()), int(given.max())
    if low < 0 or high >= n:
        raise InvalidValueError(
            f"{name}= has the row index {low if low < 0 else high}; expected 0..{n - 1}.",
            hint="Negative indices do not count from the end.",
        )
    indices = given.astype(np.int64)
    order = np.argsort(indices, kind="stable")
    rows = indices[order]
    twice = np.flatnonzero(rows[1:] == rows[:-1])
    if twice.size:
        raise InvalidValueError(f"{name}= has the row index {int(rows[twice[0]])} twice; expected unique indices.")
    ascending = bool((order[1:] > order[:-1]).all())
    return Selection(rows, None if ascending else order, rows.size)
