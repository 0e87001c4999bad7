"""A thread that does one thing at a time, for work that goes on between two calls."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

Job = tuple[Callable[[], Any], "Future[Any]"]


class Background:
    """Runs functions one after another; its thread ends with `end`, with the object, or with the interpreter, whichever is first."""

    def __init__(self) -> None:
        jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._jobs = jobs
        self._thread = threading.Thread(target=_work, args=(jobs,), name="sandpool-step", daemon=True)
        self._finalizer = weakref.finalize(self, jobs.put, None)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread is there; a forked process has none."""
        return self._thread.is_alive()

    def run(self, function: Callable[[], Any]) -> Future[Any]:
        """Begin a function; its result or exception is the future's."""
        future: Future[Any] = Future()
        self._jobs.put((function, future))
        return future

    def end(self) -> None:
        """End the thread after what it does now, and wait for that."""
        self._finalizer()
        self._thread.join()


def _work(jobs: queue.SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        function, future = job
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001  # it is the waiting thread's
            future.set_exception(error)
        # What the last job holds must not live until the next one.
        del job, function, future
