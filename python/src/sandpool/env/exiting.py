"""Ending a process that may share its memory with a template."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NoReturn


def flush_and_exit(status: int) -> NoReturn:
    """Exit without the interpreter's teardown, which would touch, and so copy, most pages a fork shares with its template."""
    try:
        atexit._run_exitfuncs()
    finally:
        flush_standard_streams()
        os._exit(status)


def flush_standard_streams(log: tuple[int, int] | None = None) -> None:
    """Write what waits in them; with `log`, the device and inode of a file, only in those that lead there."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the environment may have closed or replaced it
            if log is not None:
                status = os.fstat(stream.fileno())
                if (status.st_dev, status.st_ino) != log:
                    continue
            stream.flush()
