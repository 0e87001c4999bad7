"""A pool for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sandpool.aio.branching import Branching
from sandpool.aio.env import AsyncEnv
from sandpool.errors import PoolBusyError
from sandpool.pool.options import check_count, check_seconds
from sandpool.pool.result import CallResult, StepResult
from sandpool.pool.rlpool import RLPool
from sandpool.pool.selection import Rows
from sandpool.stream.absorb import absorb_parts
from sandpool.stream.entries import Entry, make_resets, make_steps
from sandpool.stream.results import ReceivedResult


class AsyncRLPool(Branching):
    """A pool whose verbs are awaited, with the arguments and results of `RLPool`.

    Two ways to use it beside lock-step batches: `send` and `recv` as in `RLPool`, and `env`, which checks one environment out for one
    coroutine, so that thousands of rollouts share the pool. A cancelled await never corrupts the pool: what was sent comes to its
    end, and what follows waits for it. A pool belongs to the event loop in which it was opened.

    Args:
        env_dir: as in `RLPool`.
        n: as in `RLPool`.
        options: all others of `RLPool`, by name.

    Example:
        >>> async with AsyncRLPool("envs/shell", 32) as pool:  # doctest: +SKIP
        ...     async with pool.env() as e:
        ...         obs = await e.reset(options={"task": 7})
        ...         obs, reward, terminated, truncated, info = await e.step("ls")
    """

    def __init__(self, env_dir: str | os.PathLike[str], n: int, **options: Any) -> None:
        super().__init__(partial(RLPool, env_dir, n, **options))

    @classmethod
    async def create(cls, env_dir: str | os.PathLike[str], n: int, **options: Any) -> AsyncRLPool:
        """Make a pool; close it yourself. The same as ``await AsyncRLPool(…)``."""
        return await cls(env_dir, n, **options)

    @classmethod
    def attach(cls, pool_id: str, **options: Any) -> AsyncRLPool:
        """Attach to a pool that exists: ``await`` it, or use it with ``async with``, which detaches at the end; see `RLPool.attach`."""
        pool = cls.__new__(cls)
        Branching.__init__(pool, partial(RLPool.attach, pool_id, **options))
        return pool

    # Lock-step batches

    async def reset(self, seed: Any = None, *, where: Any = None, hard: bool = False, options: Any = None) -> Any:
        """Reset environments; see `RLPool.reset`."""
        return await self._batch(RLPool.reset, seed, where=where, hard=hard, options=options)

    async def step(self, actions: Any, where: Any = None) -> StepResult:
        """Step environments; see `RLPool.step`."""
        return await self._batch(RLPool.step, actions, where)

    async def call(
        self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, where: Any = None, timeout: float | None = None
    ) -> CallResult:
        """Call a method of each selected environment; see `RLPool.call`."""
        return await self._batch(RLPool.call, name, args, kwargs, where, timeout)

    async def get_attr(self, name: str, where: Any = None) -> CallResult:
        """Get an attribute of each selected environment; see `RLPool.get_attr`."""
        return await self._batch(RLPool.get_attr, name, where)

    async def set_attr(self, name: str, values: Any, where: Any = None) -> CallResult:
        """Set an attribute of each selected environment; see `RLPool.set_attr`."""
        return await self._batch(RLPool.set_attr, name, values, where)

    async def has_attr(self, name: str, where: Any = None) -> CallResult:
        """Whether each selected environment has an attribute."""
        return await self._batch(RLPool.has_attr, name, where)

    async def is_wrapped(self, class_path: str, where: Any = None) -> CallResult:
        """Whether each selected environment is wrapped by a class; see `RLPool.is_wrapped`."""
        return await self._batch(RLPool.is_wrapped, class_path, where)

    # Rows that do not wait for each other

    async def send(self, actions: Any, where: Any = None) -> None:
        """Send steps off; see `RLPool.send`. What is sent in one turn of the loop goes in one message."""
        await self._send(make_steps(actions, where, self.n, self.action_space))

    async def send_reset(self, where: Any = None, seed: Any = None, options: Any = None, hard: bool = False) -> None:
        """Send resets off; see `RLPool.send_reset`."""
        await self._send(make_resets(seed, options, hard, where, self.n))

    async def recv(self, min_ready: int = 1, timeout: float | None = None) -> ReceivedResult:
        """Wait until results of `min_ready` rows are there and return all that are; see `RLPool.recv`. One cancelled loses nothing."""
        hub = self._checked()
        check_count("min_ready", min_ready)
        if timeout is not None:
            check_seconds("timeout", timeout)
        parts = await hub.receive(int(min_ready), timeout)
        return absorb_parts(parts, hub.batches, hub.reporter)

    @property
    def rows_out(self) -> Rows:
        """Indices of the rows that were sent and whose results no `recv` has returned, int64, ascending."""
        return np.array(self._opened.session.rows_out(), np.int64)

    @contextlib.asynccontextmanager
    async def env(self) -> AsyncIterator[AsyncEnv]:
        """Check a free environment out; waits in order when there is none. It is given back at the end of the block.

        A row whose reset or step was cancelled is given back once its result has come, which the pool's deadlines bound.
        """
        hub = self._checked()
        out = len(hub.session.rows_out())
        if out:
            raise PoolBusyError(
                f"env() was called while {out} rows are out; expected none.", hint="send/recv and env() take turns: recv() them first."
            )
        hub.wake()
        row = await hub.desk.take()
        checked_out = AsyncEnv(hub, row, self._batch)
        hub.owners.add(row, checked_out)
        try:
            yield checked_out
        finally:
            checked_out.leave()

    # Everything else

    async def status(self, memory: bool = True) -> dict[str, Any]:
        """Return the pool's description, its rows' states and counters; see `RLPool.status`."""
        return await asyncio.to_thread(self._checked().pool.status, memory)

    async def logs(self, row: int, *, raw: bool = False) -> Any:
        """Return the end of a row's standard error; see `RLPool.logs`."""
        return await asyncio.to_thread(partial(self._checked().pool.logs, row, raw=raw))

    async def _send(self, entry: Entry) -> None:
        hub = self._checked()
        owned = [row for row in entry.rows if row in hub.session.owned]
        if owned:
            raise PoolBusyError(
                f"{len(owned)} of the rows to be sent are checked out by env(), the first is row {owned[0]}; expected rows that are free."
            )
        if entry.rows:
            await hub.put(entry)
