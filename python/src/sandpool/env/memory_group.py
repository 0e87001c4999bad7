"""The memory group of a fork, and where there is one its group of processes: opened before the fork, entered by the child first of all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sandpool.env.channel import close_all

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.native import Native


class MemoryGroup:
    """Where a fork's memory is to count. What the child writes to before it is there counts in its source's group for good.

    Made in the source; raises OSError where the group may not be entered.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        folders = [request.get("memory"), request.get("pids")] if request.get("isolated") else []
        self.descriptors: list[int] = []
        try:
            for folder in filter(None, folders):
                self.descriptors.append(open_entry(folder))
        except OSError:
            close_all(self.descriptors)
            raise
        self.error = 0

    def enter(self, native: Native) -> None:
        """In the child, between the clone and the interpreter's own work after it: nothing may be raised here."""
        for descriptor in self.descriptors:
            if native.write(descriptor, b"0", 1) != 1:
                self.error = native.last_errno()

    def check(self) -> None:
        """In the child: raises OSError if it could not enter."""
        close_all(self.descriptors)
        if self.error:
            raise OSError(self.error, f"cannot enter the memory group of the fork: {os.strerror(self.error)}")


def open_entry(folder: str) -> int:
    """The file whose writer of `0` enters the group.

    A fork has one thread, so that `tasks` (version 1) does the same as `cgroup.procs`, for which the kernel stops
    all forks of the host first: that may wait for a grace period, some milliseconds.
    """
    try:
        return os.open(os.path.join(folder, "tasks"), os.O_WRONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return os.open(os.path.join(folder, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC)
