"""A stream for callers that block: the connection lives in an event loop of its own, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue

from sandpool.errors import NotReadyError, PoolBusyError, PoolClosedError
from sandpool.pool.endpoint import Target
from sandpool.pool.timing import Timing
from sandpool.stream.connection import Receiver, Stream
from sandpool.stream.entries import Entry
from sandpool.stream.results import Observations, Part
from sandpool.stream.session import Session

_END_TIMEOUT_S = 10.0


class ThreadedStream:
    """Sends and receives for one pool object. One thread may send while another receives.

    Everything that an interrupt could tear happens in the stream's own thread, which gets none. In a forked process the parent's
    is the `predecessor`: it is only kept, for to close it would be to use its sockets.
    """

    def __init__(
        self,
        target: Target,
        n: int,
        observations: Observations,
        timing: Timing,
        silence_s: float,
        predecessor: ThreadedStream | None = None,
    ) -> None:
        self._predecessor = predecessor
        self.session = Session(n, observations, timing)
        self._pool_id = target.pool_id
        self._process_id = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = False
        self._ended = asyncio.Event()
        self._stream = Stream(target, self.session, Receiver(self.session), silence_s)
        self._thread = threading.Thread(target=self._live, name=f"sandpool-stream-{target.pool_id}", daemon=True)

    @property
    def inherited(self) -> bool:
        """Whether this is a forked process, in which the thread does not exist."""
        return self._process_id != os.getpid()

    def start(self) -> None:
        """Start the thread, unless it is there: apart from the object's making, so that an interrupt leaves none that nobody knows."""
        if self._thread.ident is None:
            self._thread.start()

    def send(self, entry: Entry) -> None:
        """Send what an entry asks; returns at once. Raises PoolBusyError when one of its rows is out."""
        self.session.put(entry)
        self._wake()

    def receive(self, min_ready: int, timeout_s: float | None) -> list[Part]:
        """Wait until results of `min_ready` rows are there and return all that are.

        Raises:
            NotReadyError: the timeout passed.
            ServerTimeoutError: the pool said nothing for longer than its deadlines can add up to.
            InvalidValueError: fewer rows are out.
        """
        session = self.session
        started = time.monotonic()
        if session.count_out():
            self._wake()
        bell: SimpleQueue[None] = SimpleQueue()
        ring = partial(bell.put, None)
        try:
            while True:
                with session.lock:
                    parts = session.take(min_ready)
                    if parts is not None:
                        return parts
                    session.watch(min_ready, ring)
                with contextlib.suppress(Empty):
                    bell.get(timeout=None if timeout_s is None else self._time_left(min_ready, timeout_s, started))
        finally:
            session.unwatch(ring)

    def refuse_batch(self, operation: str) -> None:
        """Raise PoolBusyError when rows are out."""
        out = 0 if self.inherited else self.session.count_out()
        if out:
            raise PoolBusyError(
                f"{operation}() was called while {out} rows are out; expected none.",
                hint=f"recv(min_ready={out}) first: lock-step batches and send/recv take turns.",
                details={"out": out},
            )

    def end(self) -> None:
        """Close the connection without waiting for it; what is out stays with the pool."""
        if not self.inherited:
            self._ending = True
            self._call(self._ended.set)

    def close(self) -> None:
        """Close the connection and wait until its thread has ended."""
        self.end()
        if not self.inherited and self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_END_TIMEOUT_S)

    def _wake(self) -> None:
        if self._ending:
            raise _closed(self._pool_id)
        self._call(self._stream.wake)

    def _call(self, function: Callable[[], None]) -> None:
        """Call a function in the loop. While there is none its thread will look for itself; one that has ended needs nothing."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function)

    def _live(self) -> None:
        loop = asyncio.new_event_loop()
        self._loop = loop
        loop.run_until_complete(self._carry())
        loop.close()
        self.session.fail(_closed(self._pool_id), forget=True)

    async def _carry(self) -> None:
        if self.session.has_waiting:
            self._stream.wake()
        if not self._ending:
            await self._ended.wait()
        await self._stream.close()

    def _time_left(self, min_ready: int, timeout_s: float, started: float) -> float:
        left_s = timeout_s - (time.monotonic() - started)
        if left_s <= 0:
            raise not_ready(self.session, min_ready, timeout_s)
        return left_s


def not_ready(session: Session, min_ready: int, timeout_s: float) -> NotReadyError:
    """Make the error of a `recv` whose timeout has passed."""
    return NotReadyError(
        f"{session.count_ready()} rows were ready after {timeout_s} s; expected min_ready={min_ready}.",
        hint="Nothing is lost: recv() again.",
    )


def _closed(pool_id: str) -> PoolClosedError:
    return PoolClosedError(f"The pool {pool_id} was closed by this object while rows were out.")
