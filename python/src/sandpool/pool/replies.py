"""Columns of a batch's reply, spread over the n rows of the pool."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sandpool.errors import ReplyError
from sandpool.pool.result import RowErrors
from sandpool.pool.selection import Rows, Selection
from sandpool.values.decode import decode_json
from sandpool.wire.message import Message

Infos = list[dict[str, Any]]
SparseInfos = dict[int, dict[str, Any]]


def sparse_infos_of(message: Message, n: int) -> SparseInfos:
    """Return the infos that are not empty, by row, ascending as the pool sends them."""
    text = _text_of(message, "infos")
    if len(text) <= 2:
        return {}
    members = decode_json(text)
    if not isinstance(members, dict):
        raise ReplyError(f"The reply's infos are a {type(members).__name__}; expected an object keyed by row.")
    infos: SparseInfos = {}
    for key, info in members.items():
        row = int(key) if key.isdecimal() else n
        if row >= n:
            raise ReplyError(f"The reply has an info for the row {key!r}; expected 0..{n - 1}.")
        # An info that is itself a tag that decoded to something else is kept, under a name of its own.
        infos[row] = info if isinstance(info, dict) else {"sandpool_info": info}
    return infos


def spread(sparse: SparseInfos, n: int) -> Infos:
    """Return n dicts, empty where the row had none."""
    infos: Infos = [{} for _ in range(n)]
    for row, info in sparse.items():
        infos[row] = info
    return infos


def column_of(message: Message, name: str, dtype: type[Any], rows: Rows | None, n: int) -> npt.NDArray[Any]:
    """Return a fresh array of n items; rows that were not selected are zero."""
    count = n if rows is None else len(rows)
    for field in message.fields:
        if field.name == name and field.array is not None and field.array.shape == (count,):
            if rows is None:
                return field.array.astype(dtype)
            column = np.zeros(n, dtype)
            column[rows] = field.array
            return column
    raise ReplyError(f"The reply has no column {name!r} of {count} rows.", hint="Are the server and this client of the same version?")


def results_of(message: Message, selection: Selection, n: int, errors: RowErrors) -> list[Any]:
    """Return the results of a call: n values, None for rows that failed or were not selected."""
    values = decode_json(_text_of(message, "results"))
    if not isinstance(values, list) or len(values) != selection.count:
        raise ReplyError(f"The reply's results are not a list of {selection.count}, one for each selected row.")
    results: list[Any] = [None] * n
    for row, value in zip(selection.indices(), values, strict=True):
        results[row] = None if row in errors else value
    return results


def mark_skipped(infos: Infos, selection: Selection) -> None:
    """Say in the infos of rows that were not selected that they were not stepped."""
    if selection.rows is not None:
        for row in np.setdiff1d(np.arange(len(infos)), selection.rows, assume_unique=True).tolist():
            infos[row]["sandpool_skipped"] = True


def _text_of(message: Message, name: str) -> bytes:
    for field in message.fields:
        if field.name == name and field.array is None:
            return field.text
    return b""
