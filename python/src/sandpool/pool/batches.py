"""A pool's batches, with the infos as they came: only those of rows that have one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from sandpool.pool.channel import BatchChannel, Encode
from sandpool.pool.observations import make_observations
from sandpool.pool.options import check_seconds
from sandpool.pool.replies import Infos, SparseInfos, column_of, results_of, sparse_infos_of, spread
from sandpool.pool.report import collect_errors
from sandpool.pool.requests import call_request, reset_request, step_request
from sandpool.pool.result import CallResult, Flags, RowErrors
from sandpool.pool.selection import Selection
from sandpool.pool.timeouts import Timeouts
from sandpool.pool.timing import Timing
from sandpool.wire.message import Message

T = TypeVar("T")


class ResetBatch(NamedTuple):
    """What a reset brought: observations of all n rows, infos and errors by row."""

    obs: Any
    infos: SparseInfos
    errors: RowErrors


class StepBatch(NamedTuple):
    """What a step brought: columns of all n rows (rows that were not stepped: last observation, zeros), infos and errors by row."""

    obs: Any
    rewards: npt.NDArray[np.float64]
    terminated: Flags
    truncated: Flags
    infos: SparseInfos
    errors: RowErrors


class Batches:
    """Sends batches and keeps what they leave behind: last observations, last errors and reset infos, times.

    `RLPool` is this with n infos and with failed rows reported; adapters take it as it is, for with a thousand rows and nothing
    in their infos nothing is done for a single row. With ``copy=False`` the arrays are those kept here: partial batches and
    failed rows read and write them.

    Attributes:
        restarts: int64 ``(n,)``, how often each row was reset, or became a copy, by a call: so an adapter knows of what was done
            to the pool behind it.
    """

    def __init__(self, channel: BatchChannel, timeouts: Timeouts, layout: dict[str, Any], n: int) -> None:
        self.n = n
        self.timing = Timing()
        self.errors: RowErrors = {}
        self.reset_infos: Infos = [{} for _ in range(n)]
        self.restarts = np.zeros(n, np.int64)
        self.observations = make_observations(layout, n)
        self._channel = channel
        self._timeouts = timeouts

    def reset(self, seed: object, options: object, hard: object, selection: Selection, *, copy: bool = True) -> ResetBatch:
        """Reset the selected rows; the arguments are those of `RLPool.reset`."""
        content_type, encode = reset_request(seed, options, hard, selection, self.n)
        if selection.count == 0:
            self.errors = {}
            return ResetBatch(self.observations.last(copy=copy), {}, {})

        def absorb(message: Message) -> ResetBatch:
            infos = sparse_infos_of(message, self.n)
            self._note_start(selection, infos)
            return ResetBatch(self._absorb(message, selection, infos, copy), infos, self.errors)

        return self._exchange("reset", content_type, encode, absorb, self._timeouts.reset_s)

    def step(self, actions: Any, selection: Selection, *, copy: bool = True) -> StepBatch:
        """Step the selected rows with actions as `read_actions` returns them."""
        if selection.count == 0:
            self.errors = {}
            flags = np.zeros(self.n, np.bool_)
            return StepBatch(self.observations.last(copy=copy), np.zeros(self.n), flags, flags.copy(), {}, {})
        content_type, encode = step_request(actions, selection)

        def absorb(message: Message) -> StepBatch:
            infos = sparse_infos_of(message, self.n)
            observations = self._absorb(message, selection, infos, copy)
            rewards = column_of(message, "rewards", np.float64, selection.rows, self.n)
            terminated = column_of(message, "terminated", np.bool_, selection.rows, self.n)
            truncated = column_of(message, "truncated", np.bool_, selection.rows, self.n)
            return StepBatch(observations, rewards, terminated, truncated, infos, self.errors)

        return self._exchange("step", content_type, encode, absorb, self._timeouts.step_s)

    def call(self, call: str, name: str, selection: Selection, timeout_s: float | None, free: dict[str, bytes]) -> CallResult:
        """Call a method of the selected rows, or get or set an attribute; `free` are the further members of the request."""
        if timeout_s is not None:
            check_seconds("timeout", timeout_s)
        content_type, encode = call_request(call, name, selection, timeout_s, **free)
        if selection.count == 0:
            return CallResult([None] * self.n, {})

        def absorb(message: Message) -> CallResult:
            self._collect(message, sparse_infos_of(message, self.n))
            return CallResult(results_of(message, selection, self.n, self.errors), self.errors)

        return self._exchange("call", content_type, encode, absorb, self._timeouts.of_call_s(timeout_s))

    def take_first(self, message: Message) -> None:
        """Take in what the rows had when this object came to them."""
        self.reset_infos = spread(sparse_infos_of(message, self.n), self.n)
        self.observations.merge(message.fields, None, message.members.get("failed", []))

    def _exchange(self, operation: str, content_type: str, encode: Encode, absorb: Callable[[Message], T], timeout_s: float) -> T:
        started = time.perf_counter()

        def timed(message: Message) -> T:
            self.timing.record(message.members.get("timing") or {}, (time.perf_counter() - started) * 1e3)
            return absorb(message)

        return self._channel.exchange(operation, content_type, encode, timed, timeout_s)

    def _absorb(self, message: Message, selection: Selection, infos: SparseInfos, copy: bool) -> Any:
        failed = self._collect(message, infos)
        return self.observations.merge(message.fields, selection.rows, failed, copy=copy)

    def _note_start(self, selection: Selection, infos: SparseInfos) -> None:
        self.restarts[slice(None) if selection.rows is None else selection.rows] += 1
        for row in selection.indices():
            self.reset_infos[row] = infos.get(row, {})

    def _collect(self, message: Message, infos: SparseInfos) -> Sequence[int]:
        failed: Sequence[int] = message.members.get("failed", [])
        self.errors = collect_errors(failed, infos) if failed else {}
        return failed
