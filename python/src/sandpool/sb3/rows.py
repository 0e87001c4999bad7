"""The rows of a pool by the rules of Stable-Baselines3's VecEnv; without its classes, and so without torch."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from sandpool.pool.actions import read_actions
from sandpool.pool.batches import StepBatch
from sandpool.pool.branches import CopyBatch
from sandpool.pool.replies import spread
from sandpool.pool.restarts import Restarts
from sandpool.pool.result import RowErrors
from sandpool.pool.revive import Revived, revive_rows
from sandpool.pool.rlpool import RLPool
from sandpool.pool.selection import select_rows
from sandpool.sb3.observations import Space, fit_batch, fit_one, take_row
from sandpool.sb3.options import check_open

Infos = list[dict[str, Any]]


class Stepped(NamedTuple):
    """One step of all rows.

    Attributes:
        obs: array ``(n, …)``, or a dict or tuple of such, with the dtypes of the space.
        rewards: float64 ``(n,)``.
        dones: bool ``(n,)``.
        infos: n fresh dicts, with ``TimeLimit.truncated`` and, where done, ``terminal_observation``.
        reset_infos: infos of the resets that the step brought, by row.
        errors: rows that failed in this step.
    """

    obs: Any
    rewards: npt.NDArray[np.float64]
    dones: npt.NDArray[np.bool_]
    infos: Infos
    reset_infos: dict[int, dict[str, Any]]
    errors: RowErrors


class Started(NamedTuple):
    """One reset, or copies; members as in `Stepped`, with n reset infos."""

    obs: Any
    reset_infos: Infos
    errors: RowErrors


class Rows:
    """Steps and resets a pool whose autoreset mode is same-step."""

    def __init__(self, pool: RLPool, observation_space: Space, action_space: Space) -> None:
        self._pool = pool
        self._observation_space = observation_space
        self._action_space = action_space
        self._all = select_rows(None, pool.n)
        # Rows that could not be brought back in the batch in which they failed, with the error.
        self._waiting: RowErrors = {}
        self._restarts = Restarts(pool.batches)

    def read_actions(self, actions: Any) -> Any:
        """Return one action for each row, cast to the dtype of the space, in the form that `step` takes.

        Raises InvalidValueError or InvalidTypeError for a wrong number, shape or type.
        """
        if isinstance(self._action_space, spaces.Box) and isinstance(actions, (np.ndarray, list, tuple)):
            actions = np.asarray(actions, self._action_space.dtype)
        return read_actions(actions, self._all, self._pool.n, self._pool.action_space)

    def step(self, actions: Any) -> Stepped:
        """Step every row; `actions` are what `read_actions` returned."""
        check_open(self._pool)
        self._notice_restarts()
        waiting, shown = self._waiting, self._pool.batches.observations.last() if self._waiting else None
        batch = self._pool.batches.step(actions, self._all)
        dones = batch.terminated | batch.truncated
        if not batch.infos and not waiting and not dones.any():
            infos: Infos = [{"TimeLimit.truncated": False} for _ in range(self._pool.n)]
            return Stepped(fit_batch(self._observation_space, batch.obs), batch.rewards, dones, infos, {}, {})
        fresh = {row: error for row, error in batch.errors.items() if not error.get("repeated")}
        revived = self._revive(batch.obs, batch.errors, fresh, actions)
        infos, resets = self._infos_of(batch, dones)
        for row in waiting.keys() - batch.errors.keys():
            # Reset instead of stepped: what was shown before is the end of the episode that failed.
            resets[row], dones[row] = batch.infos.get(row, {}), True
            infos[row] = {"sandpool_error": {**waiting[row], "repeated": True}, "TimeLimit.truncated": False}
            infos[row]["terminal_observation"] = fit_one(self._observation_space, take_row(shown, row))
        observations = fit_batch(self._observation_space, revived.obs)
        return Stepped(observations, batch.rewards, dones, infos, resets | revived.infos, {**fresh, **revived.errors})

    def take_copies(self, batch: CopyBatch) -> Started:
        """Take what a fork or a restore brought in; a copy that failed is brought back as after a reset."""
        self._notice_restarts()
        obs, infos, errors = batch.reset
        others = {row: error for row, error in self._waiting.items() if row not in batch.pairs.targets}
        revived = self._revive(obs, errors, errors, self._any_actions(errors))
        self._waiting |= others
        told = spread({**infos, **revived.infos}, self._pool.n)
        return Started(fit_batch(self._observation_space, revived.obs), told, {**errors, **revived.errors})

    def reset(self, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]) -> Started:
        """Reset every row with its seed and its options; empty ones are not passed on."""
        check_open(self._pool)
        given = [item or None for item in options]
        batch = self._pool.batches.reset(_plain_seed(seeds), given if any(given) else None, False, self._all)
        self._notice_restarts()
        revived = self._revive(batch.obs, batch.errors, batch.errors, self._any_actions(batch.errors))
        infos = spread({**batch.infos, **revived.infos}, self._pool.n)
        return Started(fit_batch(self._observation_space, revived.obs), infos, {**batch.errors, **revived.errors})

    def _notice_restarts(self) -> None:
        """Take in which rows were reset, or became copies, through the pool and not through this object."""
        for row in self._restarts.take():
            self._waiting.pop(row, None)

    def _any_actions(self, errors: RowErrors) -> Any:
        """Return actions for the steps that bring failed rows back; none is executed."""
        return [deepcopy(self._action_space).sample()] * self._pool.n if errors else []

    def _revive(self, obs: Any, errors: RowErrors, fresh: RowErrors, actions: Any) -> Revived:
        """Bring back those that failed just now; a row that was told of before is not waited for again."""
        revived = revive_rows(self._pool.batches, obs, fresh, actions, self._pool.reset_timeout) if fresh else Revived(obs, {}, {})
        self._waiting = {row: revived.errors.get(row, error) for row, error in errors.items() if row not in revived.infos}
        return revived

    def _infos_of(self, batch: StepBatch, dones: npt.NDArray[np.bool_]) -> tuple[Infos, dict[int, dict[str, Any]]]:
        infos: Infos = []
        resets = {}
        by_time_limit = batch.truncated & ~batch.terminated
        by_time_limit[[row for row in batch.errors if "final_obs" not in batch.infos[row]]] = False
        for row, (done, limited) in enumerate(zip(dones.tolist(), by_time_limit.tolist(), strict=True)):
            info = dict(batch.infos.get(row, ()))
            if row in batch.errors and "final_obs" in info:
                # Its episode had ended; what failed is the reset after it.
                last, failure = _split(info, self._observation_space)
                info = {**last, **failure}
            elif row in batch.errors:
                info["terminal_observation"] = fit_one(self._observation_space, take_row(batch.obs, row))
            elif done:
                info, resets[row] = _split(info, self._observation_space)
            info["TimeLimit.truncated"] = limited
            infos.append(info)
        return infos, resets


def _split(info: dict[str, Any], space: Space) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take the info of a last step apart: the step's own with ``terminal_observation``, and that of the reset in its place."""
    observation, final = info.pop("final_obs", None), info.pop("final_info", {})
    last = final if isinstance(final, dict) else {"sandpool_info": final}
    last["terminal_observation"] = fit_one(space, observation)
    return last, info


def _plain_seed(seeds: Sequence[int | None]) -> int | list[int | None] | None:
    """Return seeds s, s+1, … as the integer s, which becomes the pool's seed; other lists as they are."""
    first = seeds[0]
    if all(seed is None for seed in seeds):
        return None
    if first is not None and all(seed == first + row for row, seed in enumerate(seeds)):
        return int(first)
    return list(seeds)
