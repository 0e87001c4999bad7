"""Results of rows in the order in which they finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sandpool.errors import ReplyError
from sandpool.pool.observations import ArrayObservations, ListObservations
from sandpool.pool.replies import SparseInfos, column_of, sparse_infos_of
from sandpool.pool.report import collect_errors
from sandpool.pool.result import RowErrors, StepResult
from sandpool.pool.selection import Rows
from sandpool.wire.message import Message

Observations: TypeAlias = "ArrayObservations | ListObservations"


class Part(NamedTuple):
    """One message's rows: k of them in each column; `infos` and `errors` by row of the pool, only where there is one."""

    rows: list[int]
    ops: list[str]
    obs: list[Any]
    rewards: npt.NDArray[np.float64]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    infos: SparseInfos
    errors: RowErrors


class ReceivedResult(StepResult):
    """What a `recv` returns: k rows in the order in which they finished; unpacks as a step's result does.

    Attributes:
        index: int64 ``(k,)``, which row of the pool each is.
        ops: text ``(k,)``, ``"step"`` or ``"reset"``; a reset's reward is 0 and its flags False.
        obs: one array ``(k, …)``, or a dict or tuple of arrays, or in a list pool a list of k values.
        rewards: float64 ``(k,)``; likewise bool ``dones``, ``terminated``, ``truncated``.
        infos: list of k dicts; a reset's is the reset's info.
        errors: dict of row of the pool to its error, only for rows that failed.
    """

    index: Rows  # type: ignore[assignment]  # A tuple's own method of that name is of no use here.
    ops: npt.NDArray[np.str_]


def read_part(message: Message, n: int, observations: Observations) -> Part:
    """Read a message of results and take its observations in. Raises ReplyError for anything out of form."""
    members = message.members
    rows, ops = _list_of(members, "where"), _list_of(members, "ops")
    if len(ops) != len(rows) or not all(type(row) is int and 0 <= row < n for row in rows) or len(set(rows)) != len(rows):
        raise ReplyError(f"The stream's result is for the rows {rows!r:.200} and the operations {ops!r:.200}; expected rows of 0..{n - 1}.")
    failed: Sequence[int] = members.get("failed", [])
    infos = sparse_infos_of(message, n)
    return Part(
        rows,
        ops,
        observations.take(message.fields, np.array(rows, np.int64), failed),
        column_of(message, "rewards", np.float64, None, len(rows)),
        column_of(message, "terminated", np.bool_, None, len(rows)),
        column_of(message, "truncated", np.bool_, None, len(rows)),
        infos,
        collect_errors(failed, infos) if failed else {},
    )


def pick_rows(part: Part, places: list[int], observations: Observations) -> Part:
    """Return some rows of a part as a part."""
    return Part(
        [part.rows[place] for place in places],
        [part.ops[place] for place in places],
        observations.pick(part.obs, places),
        part.rewards[places],
        part.terminated[places],
        part.truncated[places],
        part.infos,
        {row: error for row, error in part.errors.items() if row in {part.rows[place] for place in places}},
    )


def join_parts(parts: Sequence[Part], observations: Observations) -> ReceivedResult:
    """Return the rows of all parts, one after another, in arrays of their own."""
    rows = [row for part in parts for row in part.rows]
    infos = [part.infos.get(row, {}) for part in parts for row in part.rows]
    result = ReceivedResult.of(
        observations.join([part.obs for part in parts]),
        _joined(parts, "rewards", np.float64),
        _joined(parts, "terminated", np.bool_),
        _joined(parts, "truncated", np.bool_),
        infos,
        {row: error for part in parts for row, error in part.errors.items()},
    )
    assert isinstance(result, ReceivedResult)
    result.index = np.array(rows, np.int64)
    result.ops = np.array([operation for part in parts for operation in part.ops], np.str_)
    return result


def _joined(parts: Sequence[Part], name: str, dtype: type[Any]) -> npt.NDArray[Any]:
    return np.concatenate([getattr(part, name) for part in parts]) if parts else np.empty(0, dtype)


def _list_of(members: Mapping[str, Any], name: str) -> list[Any]:
    value = members.get(name)
    if not isinstance(value, list):
        raise ReplyError(f"The stream's result has {name}={value!r:.80}; expected a list.", hint="Are server and client of one version?")
    return value
