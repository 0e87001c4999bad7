"""What a fork of a live environment would lose without a word: threads, child programs, locks, timers."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from sandpool.env.forking import live_threads, read_name

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.descriptors import OpenFile


def find_obstacles(files: list[OpenFile]) -> list[dict[str, Any]]:
    """The blockers other than descriptors and memory, each with its count."""
    blockers: list[dict[str, Any]] = []
    threads = live_threads()
    if threads:
        blockers.append({"threads": len(threads), "names": sorted({read_name(f"/proc/self/task/{n}/comm") for n in threads})})
    children = _children()
    if children:
        blockers.append({"processes": len(children), "names": sorted(set(children))})
    locks = _held_locks(files)
    if locks:
        blockers.append({"locks": locks})
    timers = _running_timers()
    if timers:
        blockers.append({"timers": timers})
    return blockers


def _children() -> list[str]:
    """Names of child programs. One that ended counts until it is waited for: in a copy its status could not be had any more."""
    if "subprocess" in sys.modules:
        sys.modules["subprocess"]._cleanup()  # as it does itself before it starts another one
    pids: list[str] = []
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children") as file:
                pids += file.read().split()
    except FileNotFoundError:  # a kernel without it
        pids = [pid for pid in os.listdir("/proc") if pid.isdigit() and _status_of(pid)[1:] == [str(os.getpid())]]
    return [read_name(f"/proc/{pid}/comm") + (" (ended, not waited for)" if _status_of(pid)[:1] == ["Z"] else "") for pid in pids]


def _status_of(pid: str) -> list[str]:
    """A process's state and parent."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()[:2]
    except OSError:
        return []


def _held_locks(files: list[OpenFile]) -> int:
    """Locks of this process. One ends with the last descriptor of its file, so that every one of them is on an open file.

    Not from /proc/locks: to read it waits for a grace period of the whole kernel, which may take ten milliseconds.
    """
    locks: set[str] = set()
    for file in files:
        try:
            with open(f"/proc/self/fdinfo/{next(iter(file.descriptors))}") as lines:
                # Without its number: a record lock is listed with each description of its file.
                locks.update(line.partition(": ")[2] for line in lines if line.startswith("lock:"))
        except OSError:
            continue
    return len(locks)


def _running_timers() -> int:
    kinds = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
    count = sum(signal.getitimer(kind)[0] > 0 for kind in kinds)
    try:
        with open("/proc/self/timers") as file:
            count += sum(line.startswith("ID:") for line in file)
    except OSError:
        pass
    return count
