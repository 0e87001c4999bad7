"""Observations of a pool: the form fixed at its creation, and each row's last good one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sandpool.errors import ReplyError
from sandpool.pool.selection import Rows
from sandpool.values.decode import decode_json
from sandpool.values.dtypes import dtype_of
from sandpool.wire.message import Field

Array = np.ndarray[Any, np.dtype[Any]]


class ArrayObservations:
    """Observations of an array pool: one array ``(n, …)`` for each field of the layout.

    What `merge` returns is the caller's own and never written to again, unless it was asked for with ``copy=False``.
    """

    def __init__(self, layout: dict[str, Any], n: int) -> None:
        self._tree: dict[str, Any] = layout["tree"]
        self._n = n
        self._forms = [(dtype_of(field["dtype"]), tuple(field["shape"])) for field in layout["fields"]]
        self._last: list[Array] = [np.zeros((n, *shape), dtype) for dtype, shape in self._forms]

    def merge(self, fields: Sequence[Field], rows: Rows | None, failed: Sequence[int], *, copy: bool = True) -> Any:
        """Take a reply's observations; failed and unselected rows keep their last good one."""
        columns = self._columns_of(fields, self._n if rows is None else len(rows))
        if rows is None:
            if failed:
                places = list(failed)
                for column, last in zip(columns, self._last, strict=True):
                    column[places] = last[places]
            self._last = columns
        else:
            good = ~np.isin(rows, failed)
            for column, last in zip(columns, self._last, strict=True):
                last[rows[good]] = column[good]
        return self.last(copy=copy)

    def last(self, *, copy: bool = True) -> Any:
        """Return every row's last good observation, zeros where there was none."""
        return _arrange(self._tree, [column.copy() for column in self._last] if copy else self._last)

    def take(self, fields: Sequence[Field], rows: Rows, failed: Sequence[int]) -> list[Array]:
        """Take the observations of a few rows and return them as a part for `join`; failed rows have their last good one."""
        columns = self._columns_of(fields, len(rows))
        if not failed:
            for column, last in zip(columns, self._last, strict=True):
                last[rows] = column
            return columns
        bad = np.isin(rows, failed)
        columns = [column.copy() for column in columns]
        for column, last in zip(columns, self._last, strict=True):
            last[rows[~bad]] = column[~bad]
            column[bad] = last[rows[bad]]
        return columns

    def join(self, parts: Sequence[list[Array]]) -> Any:
        """Return the observations of parts that `take` made, one after another, in memory of their own."""
        if not parts:
            return _arrange(self._tree, [np.empty((0, *shape), dtype) for dtype, shape in self._forms])
        return _arrange(self._tree, [np.concatenate(columns) for columns in zip(*parts, strict=True)])

    def pick(self, part: list[Array], places: Sequence[int]) -> list[Array]:
        """Return some rows of a part that `take` made, as a part."""
        return [column[places] for column in part]

    def at(self, part: list[Array], place: int) -> Any:
        """Return one row's observation out of a part that `take` made, in memory of its own."""
        return _arrange(self._tree, [column[place].copy() for column in part])

    def _columns_of(self, fields: Sequence[Field], count: int) -> list[Array]:
        columns: list[Array | None] = [None] * len(self._forms)
        for field in fields:
            if field.name == "obs" and field.field is not None and field.field < len(columns):
                columns[field.field] = field.array
        for column, (dtype, shape) in zip(columns, self._forms, strict=True):
            if column is None or column.dtype != dtype or column.shape != (count, *shape):
                received = "nothing" if column is None else f"{column.dtype} {column.shape}"
                raise ReplyError(f"The reply's observations are {received}; the pool's layout says {dtype} {(count, *shape)}.")
        return columns  # type: ignore[return-value]


class ListObservations:
    """Observations of a list pool: a list of n values, None for a row that failed before its first."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._last: list[Any] = [None] * n

    def merge(self, fields: Sequence[Field], rows: Rows | None, failed: Sequence[int], *, copy: bool = True) -> list[Any]:
        """Take a reply's observations; failed rows are None, unselected ones keep their last good one."""
        values = self._values_of(fields)
        indices = range(self._n) if rows is None else rows.tolist()
        if len(values) != len(indices):
            raise ReplyError(f"The reply has {len(values)} observations for {len(indices)} rows.")
        lost = frozenset(failed)
        for index, value in zip(indices, values, strict=True):
            if index not in lost:
                self._last[index] = value
        return [None if index in lost else value for index, value in enumerate(self._last)]

    def last(self, *, copy: bool = True) -> list[Any]:
        """Return every row's last good observation."""
        return list(self._last)

    def take(self, fields: Sequence[Field], rows: Rows, failed: Sequence[int]) -> list[Any]:
        """Take the observations of a few rows and return them as a part for `join`; failed rows are None."""
        values = self._values_of(fields)
        if len(values) != len(rows):
            raise ReplyError(f"The reply has {len(values)} observations for {len(rows)} rows.")
        lost = frozenset(failed)
        part = [None if row in lost else value for row, value in zip(rows.tolist(), values, strict=True)]
        for row, value in zip(rows.tolist(), part, strict=True):
            if row not in lost:
                self._last[row] = value
        return part

    def join(self, parts: Sequence[list[Any]]) -> list[Any]:
        """Return the observations of parts that `take` made, one after another."""
        return [value for part in parts for value in part]

    def pick(self, part: list[Any], places: Sequence[int]) -> list[Any]:
        """Return some rows of a part that `take` made, as a part."""
        return [part[place] for place in places]

    def at(self, part: list[Any], place: int) -> Any:
        """Return one row's observation out of a part that `take` made."""
        return part[place]

    def _values_of(self, fields: Sequence[Field]) -> list[Any]:
        for field in fields:
            if field.name == "obs" and field.array is None:
                values = decode_json(field.text)
                if isinstance(values, list):
                    return values
        raise ReplyError("The reply has no list of observations, which a list pool's must have.")


def make_observations(layout: dict[str, Any], n: int) -> ArrayObservations | ListObservations:
    """Make the store for a pool's layout, the `layout` member of its description."""
    return ArrayObservations(layout, n) if layout["kind"] == "array" else ListObservations(n)


def _arrange(tree: dict[str, Any], columns: list[Array]) -> Any:
    if "field" in tree:
        return columns[tree["field"]]
    if "dict" in tree:
        return {name: _arrange(branch, columns) for name, branch in tree["dict"]}
    return tuple(_arrange(branch, columns) for branch in tree["tuple"])
