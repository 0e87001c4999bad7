"""Lock-step batches and the stream take turns."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable


class Turns:
    """Counts batches that run or wait, also those whose awaiting task was cancelled: until they are over nothing is sent."""

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        self._batches = 0
        self._no_batch = asyncio.Event()
        self._no_batch.set()
        self._quiet = asyncio.Event()
        self._failure: Exception | None = None

    def begin_batch(self) -> None:
        """Hold back what is to be sent."""
        self._batches += 1
        self._no_batch.clear()

    def end_batch(self) -> None:
        """Let it go on, if this was the last batch."""
        self._batches -= 1
        if self._batches == 0:
            self._no_batch.set()

    def become_quiet(self) -> None:
        """Say that nothing is under way."""
        self._quiet.set()

    def fail(self, error: Exception) -> None:
        """Let those who wait for quiet raise `error`: what is out may never come back."""
        self._failure = error
        self._quiet.set()

    async def wait_for_batches(self) -> None:
        """Wait until no batch is under way."""
        while self._batches:
            await self._no_batch.wait()

    @contextlib.asynccontextmanager
    async def between_sends(self) -> AsyncIterator[None]:
        """Hold back what is to be sent, and wait until all that was sent is back."""
        self.begin_batch()
        try:
            self._failure = None
            while self._is_busy():
                self._quiet.clear()
                await self._quiet.wait()
                if self._failure is not None:
                    raise self._failure
            yield
        finally:
            self.end_batch()
