"""Free rows of a pool, and those who wait for one in order."""

from __future__ import annotations

import asyncio
from collections import deque


class Desk:
    """Hands out rows; a waiter that was cancelled never costs a row."""

    def __init__(self, n: int) -> None:
        self._free = deque(range(n))
        self._waiters: deque[asyncio.Future[int]] = deque()

    async def take(self) -> int:
        """Return a free row, or wait until one is given back; first come, first served."""
        if self._free:
            return self._free.popleft()
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give(waiter.result())
            raise

    def give(self, row: int) -> None:
        """Give a row back."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(row)
                return
        self._free.append(row)

    def fail(self, error: Exception) -> None:
        """Let all who wait raise `error`."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(error)
