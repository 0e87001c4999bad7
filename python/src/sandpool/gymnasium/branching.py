"""Copies of live environments in a vector environment, and what they do to what it remembers of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from sandpool.gymnasium.base import PoolVectorEnv
from sandpool.gymnasium.present import present_reset
from sandpool.gymnasium.versions import AutoresetMode
from sandpool.pool.branches import CopyBatch
from sandpool.pool.branching import warn_of
from sandpool.pool.state import State, check_states

Started = tuple[Any, dict[str, Any]]


class BranchedVectorEnv(PoolVectorEnv):
    """`fork`, `save`, `restore`, `drop` and `states`, with the arguments of `RLPool`.

    `fork` and `restore` return what `reset` does with a `reset_mask`: observations of all environments, those of the copies being
    their sources' last, and batched infos of the copies alone, their sources' reset infos. An episode that ended in the source has
    ended in the copy: with autoreset disabled it must be reset before the next step, in next-step mode the next step resets it.
    """

    def fork(self, src: Any, dst: Any, *, reseed: Any = False) -> Started:
        """Make environments live copies of others as they are now; see `RLPool.fork` for arguments and errors."""
        self._check_ready("fork")
        self._notice_restarts()
        batch = self.pool.batches.fork(src, dst, reseed, copy=self.copy)
        sources = [int(row) for row in batch.pairs.sources]
        return self._take_copies(batch, self._ended[sources], [self._seeds[row] for row in sources], reseed)

    def save(self, where: Any = None) -> list[State]:
        """Keep copies of environments as they are now; see `RLPool.save`."""
        self._check_ready("save")
        return self.pool.save(where)

    def restore(self, states: Any, where: Any = None, *, reseed: Any = False) -> Started:
        """Make environments live copies of states; see `RLPool.restore` for arguments and errors."""
        self._check_ready("restore")
        self._notice_restarts()
        given = check_states(states, self.pool.id)
        batch = self.pool.batches.restore(given, where, reseed, self.pool.id, copy=self.copy)
        by_id = {state.id: state for state in given}
        sources = [by_id[str(key)] for key in batch.pairs.sources]
        ended = np.array([state.pending for state in sources], np.bool_)
        return self._take_copies(batch, ended, [-1 if state.seed is None else state.seed for state in sources], reseed)

    def drop(self, states: Any = None) -> list[str]:
        """End states, all of the pool without an argument; see `RLPool.drop`."""
        self._check_running()
        return self.pool.drop(states)

    def states(self, memory: bool = False) -> list[State]:
        """Return the pool's states; see `RLPool.states`."""
        self._check_running()
        return self.pool.states(memory)

    def _take_copies(self, batch: CopyBatch, ended: Any, seeds: list[int], reseed: Any) -> Started:
        targets = batch.pairs.targets
        self._restarts.take()
        self.errors = batch.reset.errors
        self._begun[targets] = True
        if self.autoreset_mode is AutoresetMode.DISABLED:
            self._ended[targets] = ended
        for place, (row, seed) in enumerate(zip(targets, seeds, strict=True)):
            is_reseeded = "np_random" in self.pool.reseeded.get(row, ())
            self._seeds[row] = _new_seed(reseed, row, place) if is_reseeded else seed
        warn_of(batch)
        result = present_reset(self._failed.after_reset(batch.reset, targets), self._shown, self.num_envs)
        if batch.reset.errors:
            self._reporter.report(batch.reset.errors, result)
        return result


def _new_seed(reseed: Any, row: int, place: int) -> int:
    """Return what a copy was reseeded with, -1 where the pool has derived it."""
    if isinstance(reseed, (bool, np.bool_)):
        return -1
    return int(reseed[place]) if isinstance(reseed, (list, tuple, np.ndarray)) else int(reseed) + row
