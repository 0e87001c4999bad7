"""Calls of the blocking client, awaited: each runs in a thread, and as many at once as are asked for."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

# Threads are made when they are needed; one that waits for a program costs some 100 KiB.
_MOST_THREADS = 4096


class Threads:
    """The threads of one client. asyncio's own would let a few long programs hold up all other calls."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="sandpool-aio")
        self._cleaning: set[Future[Any]] = set()

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function in a thread, in the caller's context."""
        return self._executor.submit(contextvars.copy_context().run, functools.partial(function, *args, **kwargs))

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await a function. One whose caller is cancelled comes to its end all the same."""
        return await asyncio.wrap_future(self.submit(function, *args, **kwargs))

    def clean_up(self, function: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run what ends something whose caller was cancelled; `close` waits for it."""
        cleaning = self.submit(function, *args, **kwargs)
        self._cleaning.add(cleaning)
        cleaning.add_done_callback(self._cleaning.discard)

    async def close(self) -> None:
        """Take no more calls; those that run come to their end."""
        await asyncio.gather(*map(asyncio.wrap_future, list(self._cleaning)), return_exceptions=True)
        self._executor.shutdown(wait=False)


class Threaded:
    """Something whose calls are awaited: `call` names the blocking object, `threads` where they run."""

    def __init__(self, calls: Any, threads: Threads) -> None:
        self._blocking = calls
        self._threads = threads


def awaited(function: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Make the awaited twin of a blocking method, for a class that is `Threaded`."""

    @functools.wraps(function)
    async def twin(self: Threaded, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self._threads.run(functools.partial(function, self._blocking, *args, **kwargs))
        return result

    return cast("Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]", twin)
