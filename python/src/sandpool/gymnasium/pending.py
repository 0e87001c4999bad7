"""One asynchronous call at a time: begun in a thread, waited for as often as needed, its result never lost."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from typing import Any

from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError


class Pending:
    """The call that was begun and not yet waited for, if there is one."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._thread: threading.Thread | None = None
        self._result: Any = None
        self._error: BaseException | None = None

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
        self._name, self._result, self._error = name, None, None
        self._thread = threading.Thread(target=self._run, args=(work,), name=f"sandpool-{name}", daemon=True)
        self._thread.start()

    def wait(self, name: str, timeout_s: float | None) -> Any:
        """Return what the pending call `name` returned, or raise what it raised.

        Raises:
            NoAsyncCallError: no such call is pending.
            multiprocessing.TimeoutError: it takes longer; it stays pending, and the next wait may have it.
        """
        if self._name != name or self._thread is None:
            raise NoAsyncCallError(f"Calling `{name}_wait` without any prior call to `{name}_async`.", name)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise multiprocessing.TimeoutError(
                f"The call to `{name}_wait` has timed out after {timeout_s} second(s); its result is not lost: wait again."
            )
        error, result = self._error, self._result
        self._name = self._thread = self._result = self._error = None
        if error is not None:
            raise error
        return result

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._result = work()
        except BaseException as error:  # noqa: BLE001
            self._error = error
