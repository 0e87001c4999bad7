"""Copying a process: what stands in the way, and the fork itself."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from sandpool.env.native import CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, CLONE_NUMBERS, CLONE_PARENT, SIGCHLD, native_calls

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.channel import Channel
    from sandpool.env.memory_group import MemoryGroup


def fork_blockers(channel: Channel) -> list[dict[str, Any]]:
    """Why a fork of this process would not be a whole copy of it: other threads, child programs, no socket to pass descriptors on."""
    blockers: list[dict[str, Any]] = []
    if not channel.is_socket:
        blockers.append({"reason": "the channel is not a unix socket; SANDPOOL_FD was not given"})
    threads = live_threads()
    if threads:
        blockers.append({"threads": len(threads), "names": sorted({read_name(f"/proc/self/task/{n}/comm") for n in threads})})
    children = _child_programs()
    if children:
        blockers.append({"children": len(children), "names": sorted({read_name(f"/proc/{pid}/comm") for pid in children})})
    return blockers


def live_threads() -> list[str]:
    """The numbers of all threads but the first."""
    own = str(os.getpid())
    return [number for number in os.listdir("/proc/self/task") if number != own]


def _child_programs() -> list[str]:
    """Live children; one that exited and was not waited for is no obstacle."""
    children = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == os.getpid() and state not in (b"Z", b"X"):
                children.append(entry)
    return children


def read_name(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "(gone)"


def fork_orphan(group: MemoryGroup) -> int:
    """Fork so that the child's parent is this process's own parent at once, which can then wait for it: 0 in the child, else its pid.

    One raw clone does it (fork itself has no such flag); where the kernel or the machine refuses, two forks do. Output that waits in
    standard streams has to be written before, or it is written twice. The child enters its memory group before it does anything
    else, and has to check that it did.
    """
    native = native_calls()
    number = native.clone_number
    if number is None or not native.can_clone:
        return _fork_twice(group)
    flags = CLONE_PARENT | SIGCHLD
    address = native.thread_id_address()
    if address:  # keeps the C library's own copy of the thread's number right in the child
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
    places = (0, address, 0) if number == CLONE_NUMBERS["x86_64"] else (0, 0, address)
    native.before_fork()
    pid = native.syscall(number, flags, 0, *places)
    if pid == 0:
        group.enter(native)
        native.after_fork_child()
        return 0
    number_of_error = native.last_errno()
    native.after_fork_parent()
    if pid > 0:
        return int(pid)
    if number_of_error in (errno.EAGAIN, errno.ENOMEM):  # a limit, which two forks would meet as well
        raise OSError(number_of_error, f"cannot fork: {os.strerror(number_of_error)}")
    native.can_clone = False
    return _fork_twice(group)


def _fork_twice(group: MemoryGroup) -> int:
    incoming, outgoing = os.pipe()
    middle = os.fork()
    if middle == 0:
        pid = -1
        try:
            pid = os.fork()
            if pid:
                os.write(outgoing, b"%d" % pid)
        finally:
            if pid:
                os._exit(0)
        group.enter(native_calls())
        os.close(incoming)
        os.close(outgoing)
        return 0
    os.close(outgoing)
    text = os.read(incoming, 32)
    os.close(incoming)
    os.waitpid(middle, 0)
    if not text:
        raise OSError(errno.EAGAIN, "cannot fork: the second of two forks failed")
    return int(text)
