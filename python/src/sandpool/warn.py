"""Warnings that point at the user's own line, also for what a thread of ours has done for a later call."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

from sandpool.errors import SandpoolWarning

# Their lines say nothing of where the user called.
_BETWEEN = ("sandpool", "gymnasium", "stable_baselines3")
_held: ContextVar[list[str] | None] = ContextVar("held", default=None)


def warn_user(message: str) -> None:
    """Give a SandpoolWarning at the line that called into the client, through Gymnasium or Stable-Baselines3 maybe."""
    held = _held.get()
    if held is not None:
        held.append(message)
        return
    warnings.warn(message, SandpoolWarning, stacklevel=_level_of_user())


@contextlib.contextmanager
def hold_warnings() -> Iterator[list[str]]:
    """Collect what this thread would warn of, for whoever gives it in the user's thread."""
    held: list[str] = []
    token = _held.set(held)
    try:
        yield held
    finally:
        _held.reset(token)


def _level_of_user() -> int:
    """Return the stack level, as the caller's `warnings.warn` counts it, of the first function that is not of these packages."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame = frame.f_back
        level += 1
    return level
