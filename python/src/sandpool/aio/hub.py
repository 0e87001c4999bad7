"""What an asyncio pool and its checked-out environments share: the stream, the rows' owners, and whose turn it is."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

from sandpool.aio.desk import Desk
from sandpool.aio.owners import OwnedRows
from sandpool.aio.turns import Turns
from sandpool.errors import PoolBusyError
from sandpool.pool.rlpool import RLPool
from sandpool.stream.connection import Stream
from sandpool.stream.entries import Entry
from sandpool.stream.results import Part
from sandpool.stream.session import Session
from sandpool.stream.threaded import not_ready


class Hub:
    """One pool's stream in the running event loop.

    Attributes:
        lost: rows that only a hard reset brings back.
    """

    def __init__(self, pool: RLPool) -> None:
        needs = pool.stream_needs()
        needs.channel.guard = self._refuse_batch
        self.pool = pool
        self.batches = needs.batches
        self.reporter = needs.reporter
        self.lost: set[int] = set()
        self.session = Session(pool.n, needs.batches.observations, needs.batches.timing)
        self.turns = Turns(lambda: self.session.is_busy)
        self.desk = Desk(pool.n)
        self.owners = OwnedRows(self.session, self.desk, self.turns)
        self._stream = Stream(needs.target, self.session, self.owners, needs.silence_s)

    async def put(self, entry: Entry) -> None:
        """Send an entry once no batch is under way; returns without having waited otherwise."""
        await self.turns.wait_for_batches()
        self.session.put(entry)
        self._stream.wake()

    def wake(self) -> None:
        """Try again to reach the server, if something is out."""
        if self.session.is_busy:
            self._stream.wake()

    async def receive(self, min_ready: int, timeout_s: float | None) -> list[Part]:
        """Wait for results that nobody owns; raises as `RLPool.recv` does."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        self.wake()
        while (parts := self.session.take(min_ready)) is None:
            left_s = None if until is None else until - time.monotonic()
            if timeout_s is not None and left_s is not None and left_s <= 0:
                raise not_ready(self.session, min_ready, timeout_s)
            bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            ring = partial(_ring, bell)
            self.session.watch(min_ready, ring)
            try:
                await asyncio.wait([bell], timeout=left_s)
            finally:
                self.session.unwatch(ring)
        return parts

    def tell(self, row: int, part: Part, result: Any) -> Any:
        """Return one row's result after its user was told of its failure; raises it with ``errors="raise"``."""
        error = part.errors.get(row)
        self.lost.discard(row)
        if error is not None:
            if error.get("kind") == "lost":
                self.lost.add(row)
            self.reporter.report({row: error}, result)
        return result

    async def close(self, error: Any) -> None:
        """Close the stream; all who wait raise `error`."""
        await self._stream.close()
        self.owners.fail(error, forget=True)

    def _refuse_batch(self, operation: str) -> None:
        """Raise PoolBusyError for a batch that would touch what is out or checked out."""
        out, owned = self.session.count_out(), len(self.owners)
        if out:
            raise PoolBusyError(
                f"{operation}() was called while {out} rows are out; expected none.",
                hint="Lock-step batches take turns with send/recv and env(): let what is out come back first.",
                details={"out": out},
            )
        if owned and operation not in ("call", "save"):
            raise PoolBusyError(
                f"{operation}() was called while {owned} rows are checked out by env(); expected none.", details={"checked_out": owned}
            )


def _ring(bell: asyncio.Future[None]) -> None:
    if not bell.done():
        bell.set_result(None)
