"""The part of `AsyncRLPool` that makes rows live copies of others, and keeps rows to go back to."""

from __future__ import annotations

import asyncio
from typing import Any

from sandpool.aio.described import Described
from sandpool.pool.rlpool import RLPool
from sandpool.pool.state import State


class Branching(Described):
    """`fork`, `save`, `restore`, `drop` and `states`, awaited.

    As lock-step batches they are refused while rows are out, and but for `save` while rows are checked out by `env`.
    """

    async def fork(self, src: Any, dst: Any, *, reseed: Any = False) -> Any:
        """Make rows live copies of others as they are now; see `RLPool.fork`."""
        return await self._batch(RLPool.fork, src, dst, reseed=reseed)

    async def save(self, where: Any = None) -> list[State]:
        """Keep copies of rows as they are now; see `RLPool.save`. The states of one that is cancelled are in `states`."""
        return await self._batch(RLPool.save, where)

    async def restore(self, states: Any, where: Any = None, *, reseed: Any = False) -> Any:
        """Make rows live copies of states; see `RLPool.restore`."""
        return await self._batch(RLPool.restore, states, where, reseed=reseed)

    async def drop(self, states: Any = None) -> list[str]:
        """End states, all of the pool without an argument; see `RLPool.drop`."""
        return await asyncio.to_thread(self._checked().pool.drop, states)

    async def states(self, memory: bool = False) -> list[State]:
        """Return the pool's states; see `RLPool.states`."""
        return await asyncio.to_thread(self._checked().pool.states, memory)
