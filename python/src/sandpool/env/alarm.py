"""Interrupts the environment's Python code when a message runs out of time, so that the process's other rows are answered."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from sandpool.env.errors import OWN_FILES

if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

FIRST_SHARE = 0.9  # of the deadline; the rest is for the other rows and for the answer
SMALLEST_SHARE_SECONDS = 0.0005


class OutOfTimeError(BaseException):
    """Raised inside the environment's code. No Exception, so that an `except Exception` there does not hold it back."""

    sandpool_kind = "timeout"


class Alarm:
    """A clock for one message at a time. It rings only while the environment's code runs, wherever that stands.

    Without the main thread, or where the environment has a use of its own for SIGALRM, it stays off.
    """

    def __init__(self) -> None:
        self.is_set = False
        self.running = False  # the environment's code, or what the helper does for that row alone
        self.rang = False
        self.taken = False  # by the environment, for good
        self.end = 0.0
        self.limit_seconds = 0.0
        self.handler = self.ring

    def set(self, limit_ms: Any) -> None:
        """Start the clock of a message that has so many milliseconds, or none where that is no number."""
        self.rang = self.is_set = False
        if isinstance(limit_ms, bool) or not isinstance(limit_ms, (int, float)) or limit_ms <= 0 or self.taken:
            return
        if signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL or signal.getitimer(signal.ITIMER_REAL)[0]:
            return
        try:
            signal.signal(signal.SIGALRM, self.handler)
        except ValueError:  # served from another thread than the main one
            self.taken = True
            return
        self.is_set = True
        self.limit_seconds = limit_ms / 1000
        self.end = time.monotonic() + self.limit_seconds
        signal.setitimer(signal.ITIMER_REAL, self.limit_seconds * FIRST_SHARE)

    def stop(self) -> None:
        """Put everything back, unless the environment has put something of its own there meanwhile."""
        if not self.is_set:
            return
        if signal.getsignal(signal.SIGALRM) is not self.handler:
            self.is_set = False
            self.taken = True
            return
        self.is_set = False
        left = signal.setitimer(signal.ITIMER_REAL, 0)[0]
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # handles first what has rung already
        self.taken = not left and not self.rang

    def share(self) -> bool:
        """Give the next row half of what is left; False where nothing is."""
        seconds = (self.end - time.monotonic()) / 2
        if seconds < SMALLEST_SHARE_SECONDS:
            signal.setitimer(signal.ITIMER_REAL, 0)
            return False
        signal.setitimer(signal.ITIMER_REAL, seconds)
        return True

    def ring(self, number: int, frame: FrameType | None) -> None:
        self.rang = True
        if not self.is_set:
            return
        self.share()
        if self.running and _is_foreign(frame):
            used = self.limit_seconds - (self.end - time.monotonic())
            raise OutOfTimeError(
                f"interrupted {used:.3f} s after the message came; its rows have {self.limit_seconds:g} s together, "
                "and one row at most nine tenths of them"
            )


def _is_foreign(frame: FrameType | None) -> bool:
    """Whether the interrupted code is not the helper's, whose state an exception at any instruction could leave half made."""
    return frame is not None and not frame.f_code.co_filename.startswith(OWN_FILES)
