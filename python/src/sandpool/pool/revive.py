"""Rows whose process has just failed, brought to the first observation of their replacement."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from sandpool.pool.batches import Batches
from sandpool.pool.result import RowErrors
from sandpool.pool.selection import select_rows

_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.1


class Revived(NamedTuple):
    """What came of it.

    Attributes:
        obs: observations of all n rows.
        infos: info of the replacement's reset, by row; a row that is not in it has no new observation yet.
        errors: rows whose replacement failed in its reset.
    """

    obs: Any
    infos: dict[int, dict[str, Any]]
    errors: RowErrors


def revive_rows(batches: Batches, obs: Any, errors: RowErrors, actions: Any, timeout_s: float, *, copy: bool = True) -> Revived:
    """Wait until the replacements of rows that failed in the last batch are ready, and reset them.

    A pool with autoreset resets a failed row at the first step that finds its replacement ready, and at once answers one that
    comes too early with the old error, marked as repeated. So the rows are stepped until they have a new observation.

    Args:
        batches: of a pool with autoreset, whose last batch had these errors.
        obs: observations of all n rows, for when nothing can be done.
        errors: the last batch's, by row. One that is lost is not waited for.
        actions: those of all n rows, as `read_actions` returns them; none is executed.
        timeout_s: longest time to wait, apart from the resets themselves.
        copy: as for `Batches.step`.
    """
    until = time.monotonic() + timeout_s
    infos: dict[int, dict[str, Any]] = {}
    failed: RowErrors = {}
    waiting = [row for row, error in errors.items() if error.get("kind") != "lost"]
    pause_s = _FIRST_PAUSE_S
    while waiting:
        batch = batches.step(_of_rows(actions, waiting), select_rows(waiting, batches.n), copy=copy)
        obs = batch.obs
        infos.update({row: batch.infos.get(row, {}) for row in waiting if row not in batch.errors})
        failed.update({row: error for row, error in batch.errors.items() if not error.get("repeated")})
        waiting = [row for row, error in batch.errors.items() if error.get("repeated") and error.get("kind") != "lost"]
        if time.monotonic() >= until:
            break
        if waiting:
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
    return Revived(obs, infos, failed)


def _of_rows(actions: Any, rows: list[int]) -> Any:
    return actions[rows] if isinstance(actions, np.ndarray) else [actions[row] for row in rows]
