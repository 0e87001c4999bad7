"""Opening and closing a pool without holding the event loop, and its batches in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from sandpool.aio.hub import Hub
from sandpool.errors import PoolClosedError
from sandpool.pool.rlpool import RLPool

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound="AsyncPoolHandle")


class AsyncPoolHandle:
    """An `RLPool` behind an event loop: its batches run in one thread, one after another, whatever becomes of those who await them."""

    def __init__(self, make: Callable[[], RLPool]) -> None:
        self._make = make
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="sandpool-batches")
        self._hub: Hub | None = None
        self._closing: asyncio.Task[None] | None = None

    def __await__(self: H) -> Generator[Any, None, H]:
        return self._open().__await__()

    async def __aenter__(self: H) -> H:
        return await self._open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self._end(lambda pool: pool.__exit__(kind, error, traceback))

    async def close(self) -> None:
        """Close the pool on the server and wait until nothing of it is left; see `RLPool.close`. All who await something of it raise."""
        await self._end(RLPool.close)

    async def detach(self) -> None:
        """Let go of the pool without closing it; see `RLPool.detach`."""
        await self._end(RLPool.detach)

    async def _open(self: H) -> H:
        if self._hub is None:
            making = self._executor.submit(contextvars.copy_context().run, self._make)
            try:
                pool = await asyncio.wrap_future(making)
            except asyncio.CancelledError:
                making.add_done_callback(self._abandon)
                raise
            except BaseException:
                self._executor.shutdown(wait=False)
                raise
            self._hub = Hub(pool)
        return self

    def _abandon(self, making: Future[RLPool]) -> None:
        """Close a pool that came to be after its maker was cancelled."""
        if not making.cancelled() and making.exception() is None:
            self._executor.submit(making.result().close)
        self._executor.shutdown(wait=False)

    @property
    def _opened(self) -> Hub:
        if self._hub is None:
            raise PoolClosedError(
                "The pool was not opened; expected an open pool.", hint="Write `async with AsyncRLPool(…) as pool:` or `pool = await …`."
            )
        return self._hub

    async def _batch(self, function: Callable[Concatenate[RLPool, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a batch in the thread, after what cancelled rollouts left out. Who is cancelled leaves it to its end; what follows waits."""
        hub = self._opened
        loop = asyncio.get_running_loop()
        run = partial(contextvars.copy_context().run, function, hub.pool, *args, **kwargs)
        hub.turns.begin_batch()
        try:
            await hub.owners.wait_for_left()
            running = self._executor.submit(run)
        except BaseException as error:
            hub.turns.end_batch()
            if isinstance(error, RuntimeError):
                raise closed_by_us(hub.pool) from error
            raise
        running.add_done_callback(lambda _: _in_loop(loop, hub.turns.end_batch))
        return await asyncio.wrap_future(running)

    async def _end(self, end: Callable[[RLPool], None]) -> None:
        if self._hub is None:
            self._executor.shutdown(wait=False)
            return
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._end_once(self._hub, end))
        # Who is cancelled while it closes leaves the closing to its end.
        await asyncio.shield(self._closing)

    async def _end_once(self, hub: Hub, end: Callable[[RLPool], None]) -> None:
        await hub.close(closed_by_us(hub.pool))
        await asyncio.to_thread(self._end_in_thread, partial(end, hub.pool))

    def _end_in_thread(self, end: Callable[[], None]) -> None:
        try:
            end()
        finally:
            self._executor.shutdown(wait=True)


def closed_by_us(pool: RLPool) -> PoolClosedError:
    """Make the error of those who used a pool that was closed meanwhile."""
    return PoolClosedError(f"The pool {pool.id} was closed by this object; expected an open pool.")


def _in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    # A loop that was closed has nobody left who waits.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function)
