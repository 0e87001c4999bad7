"""The memory group of a fork: opened before the fork, entered by the child before it does anything else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.native import Native


class MemoryGroup:
    """Where a fork's memory is to count. Whatever the child touches before it is there counts in its source's group for good."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.folder: str | None = request.get("memory") if request.get("isolated") else None
        self.descriptor = -1
        self.error = 0

    def open(self) -> None:
        """In the source. Raises OSError where it may not be entered."""
        if self.folder is not None:
            self.descriptor = open_entry(self.folder)

    def enter(self, native: Native) -> None:
        """In the child, between the clone and the interpreter's own work after it: nothing may be raised here."""
        if self.descriptor >= 0 and native.write(self.descriptor, b"0", 1) != 1:
            self.error = native.last_errno()

    def check(self) -> None:
        """In the child: raises OSError if it could not enter."""
        self.close()
        if self.error:
            raise OSError(self.error, f"cannot enter the memory group of the fork: {os.strerror(self.error)}")

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def open_entry(folder: str) -> int:
    """The file whose writer of `0` enters the group.

    A fork has one thread, so that `tasks` (version 1) does the same as `cgroup.procs`, for which the kernel stops
    all forks of the host first: that may wait for a grace period, some milliseconds.
    """
    try:
        return os.open(os.path.join(folder, "tasks"), os.O_WRONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return os.open(os.path.join(folder, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC)
