"""A running program for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from types import TracebackType

from sandpool.aio.threads import Threads
from sandpool.errors import InvalidValueError
from sandpool.execs.result import ExecResult
from sandpool.execs.stream import ExecEvent, ExecStream


class AsyncExecStream:
    """A running program; see `ExecStream`. Use it with ``async with``, or ``await`` it and `close` it; then iterate over its output."""

    def __init__(self, open_stream: Callable[[], ExecStream], threads: Threads) -> None:
        self._open_stream = open_stream
        self._threads = threads
        self._stream: ExecStream | None = None
        # One piece is on its way at most; who is cancelled while it waits leaves it to the next one.
        self._next: Future[ExecEvent | None] | None = None

    @property
    def id(self) -> str:
        """Of the exec."""
        return self._opened.id

    @property
    def pid(self) -> int | None:
        """Its number inside the machine, or None where it has ended."""
        return self._opened.pid

    def __aiter__(self) -> AsyncExecStream:
        return self

    async def __anext__(self) -> ExecEvent:
        event = await self._take()
        if event is None:
            raise StopAsyncIteration
        return event

    async def wait(self) -> ExecResult:
        """Read the rest of the output and return how the program ended; see `ExecStream.wait`."""
        while await self._take() is not None:
            pass
        return await self._threads.run(self._opened.wait)

    async def write_stdin(self, data: bytes | str) -> None:
        """Write to the program's standard input; see `ExecStream.write_stdin`."""
        await self._threads.run(self._opened.write_stdin, data)

    async def close_stdin(self) -> None:
        """Close the program's standard input."""
        await self._threads.run(self._opened.close_stdin)

    async def resize(self, rows: int, columns: int) -> None:
        """Give the program's terminal another size."""
        await self._threads.run(self._opened.resize, rows, columns)

    async def signal(self, signal: str = "TERM", *, tree: bool = False) -> int:
        """Send a signal; see `ExecStream.signal`."""
        return await self._threads.run(self._opened.signal, signal, tree=tree)

    async def kill(self) -> None:
        """End the program and all that it started; see `ExecStream.kill`."""
        await self._threads.run(self._opened.kill)

    async def close(self) -> None:
        """Let go of the program; see `ExecStream.close`."""
        if self._stream is not None:
            # Who is cancelled meanwhile leaves it to its end.
            await asyncio.shield(self._threads.run(self._stream.close))

    def __await__(self) -> Generator[object, None, AsyncExecStream]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> AsyncExecStream:
        if self._stream is None:
            opening = self._threads.submit(self._open_stream)
            try:
                self._stream = await asyncio.wrap_future(opening)
            except asyncio.CancelledError:
                self._threads.clean_up(_close_late, opening)
                raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.close()

    @property
    def _opened(self) -> ExecStream:
        if self._stream is None:
            raise InvalidValueError("The program was not started; expected `async with` or `await` before.")
        return self._stream

    async def _take(self) -> ExecEvent | None:
        if self._next is None:
            self._next = self._threads.submit(next, self._opened, None)
        event = await asyncio.shield(asyncio.wrap_future(self._next))
        self._next = None
        return event


def _close_late(opening: Future[ExecStream]) -> None:
    """Let go of a program that was started after its caller was cancelled."""
    if opening.exception() is None:
        opening.result().close()
