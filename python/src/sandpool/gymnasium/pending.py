"""One asynchronous call at a time: begun in a thread, waited for as often as needed, its result never lost."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from typing import Any

from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError

from sandpool.warn import hold_warnings, warn_user


class Pending:
    """The call that was begun and not yet waited for, if there is one."""

    def __init__(self) -> None:
        self._name: str | None = None
        # An event, and not the thread's own end: a join that Ctrl-C interrupts calls a running thread ended (CPython before 3.13).
        self._done = threading.Event()
        self._process_id = os.getpid()
        self._result: Any = None
        self._error: BaseException | None = None
        self._warnings: list[str] = []

    @property
    def name(self) -> str | None:
        """`step`, `reset` or `call`, or None when nothing is pending."""
        return self._name

    def check_idle(self, method: str) -> None:
        """Raise AlreadyPendingCallError if a call is pending."""
        if self._name is not None:
            raise AlreadyPendingCallError(
                f"Calling `{method}` while waiting for a pending call to `{self._name}` to complete; expected `{self._name}_wait` first.",
                self._name,
            )

    def begin(self, name: str, work: Callable[[], Any]) -> None:
        """Start `work` in a thread."""
        self._name, self._result, self._error, self._warnings = name, None, None, []
        self._done, self._process_id = threading.Event(), os.getpid()
        threading.Thread(target=self._run, args=(work, self._done), name=f"sandpool-{name}", daemon=True).start()

    def wait(self, name: str, timeout_s: float | None) -> Any:
        """Return what the pending call `name` returned, or raise what it raised.

        Raises:
            NoAsyncCallError: no such call is pending, or it is the parent's of this forked process.
            multiprocessing.TimeoutError: it takes longer; it stays pending, and the next wait may have it.
        """
        if self._process_id != os.getpid():
            self._name = None
        if self._name != name:
            raise NoAsyncCallError(f"Calling `{name}_wait` without any prior call to `{name}_async`.", name)
        if not self._done.wait(timeout_s):
            raise multiprocessing.TimeoutError(
                f"The call to `{name}_wait` has timed out after {timeout_s} second(s); its result is not lost: wait again."
            )
        error, result = self._error, self._result
        self._name = self._result = self._error = None
        for text in self._warnings:
            warn_user(text)
        if error is not None:
            raise error
        return result

    def _run(self, work: Callable[[], Any], done: threading.Event) -> None:
        with hold_warnings() as self._warnings:
            try:
                self._result = work()
            except BaseException as error:  # noqa: BLE001
                self._error = error
            finally:
                done.set()
