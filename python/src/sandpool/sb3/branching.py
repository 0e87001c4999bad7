"""Copies of live environments in a VecEnv."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.vec_env import VecEnv  # type: ignore[import-not-found]

from sandpool.pool.branches import CopyBatch
from sandpool.pool.branching import warn_of
from sandpool.pool.report import Reporter
from sandpool.pool.rlpool import RLPool
from sandpool.pool.state import State
from sandpool.sb3.options import check_open
from sandpool.sb3.rows import Rows


class BranchedVecEnv(VecEnv):  # type: ignore[misc]
    """`fork`, `save`, `restore`, `drop` and `states`, with the arguments of `RLPool`.

    `fork` and `restore` return the observations of all environments, as `reset` does; the copies' reset infos are in `reset_infos`.
    An algorithm of Stable-Baselines3 keeps the last observations itself: between two calls of `learn` give it these as its
    `_last_obs`. Wrappers around a VecEnv (VecNormalize, VecFrameStack, VecMonitor) do not know of copies; those inside are copied.
    """

    _pool: RLPool
    _rows: Rows
    _reporter: Reporter

    def fork(self, src: Any, dst: Any, *, reseed: Any = False) -> Any:
        """Make environments live copies of others as they are now; see `RLPool.fork` for arguments and errors."""
        self._check_can_copy()
        return self._take_copies(self._pool.batches.fork(src, dst, reseed))

    def save(self, where: Any = None) -> list[State]:
        """Keep copies of environments as they are now; see `RLPool.save`."""
        self._check_can_copy()
        return self._pool.save(where)

    def restore(self, states: Any, where: Any = None, *, reseed: Any = False) -> Any:
        """Make environments live copies of states; see `RLPool.restore` for arguments and errors."""
        self._check_can_copy()
        return self._take_copies(self._pool.batches.restore(states, where, reseed, self._pool.id))

    def drop(self, states: Any = None) -> list[str]:
        """End states, all of the pool without an argument; see `RLPool.drop`."""
        check_open(self._pool)
        return self._pool.drop(states)

    def states(self, memory: bool = False) -> list[State]:
        """Return the pool's states; see `RLPool.states`."""
        check_open(self._pool)
        return self._pool.states(memory)

    def _check_can_copy(self) -> None:
        check_open(self._pool)
        self._check_not_waiting()

    def _take_copies(self, batch: CopyBatch) -> Any:
        started = self._rows.take_copies(batch)
        for row in batch.pairs.targets:
            self.reset_infos[row] = started.reset_infos[row]
        warn_of(batch)
        if started.errors:
            self._reporter.report(started.errors, started.obs)
        return started.obs
