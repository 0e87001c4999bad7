"""What makes a fork or a start an environment of its own."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from typing import TYPE_CHECKING

from sandpool.env.channel import redirect_standard_streams
from sandpool.env.folders import ISOLATED, home_in
from sandpool.env.native import native_calls

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sandpool.env.native import Native


def enter_identity(request: dict[str, Any], stderr: int) -> None:
    """Become environment `index`: its user, mounts, limits, folders, session and descriptors; it is in its memory group already.

    The order matters: ids come before mounts, capabilities go after them.
    """
    workspace = request["workspace"]
    if request.get("isolated"):
        become_user(request, lambda native: _bind_folders(native, workspace))
        home, temporary = "/workspace", "/tmp"
    else:
        _set_limits(request.get("rlimits") or {}, ("as",))  # processes are counted by user, and all share one here
        home, temporary = home_in(workspace), home_in(workspace, "tmp")
    _raise_oom_score(request.get("oom_score_adj"))
    os.chdir(home)
    os.environ.update(HOME=home, TMPDIR=temporary, PWD=home)
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None
    os.setsid()
    redirect_standard_streams(stderr)
    os.close(stderr)


def enter_copy(request: dict[str, Any], mounts: list[int]) -> None:
    """Become a copy of a live environment: as above, with the folders that came as detached mounts; the rest stays as the source had it."""
    if request.get("isolated"):
        become_user(request, lambda native: _exchange_folders(native, mounts))
    else:
        _set_limits(request.get("rlimits") or {}, ("as",))
    os.setsid()


def become_user(request: dict[str, Any], mount: Callable[[Native], None]) -> None:
    native = native_calls()
    native.set_capabilities(effective=True, permitted=True)
    os.setgroups([])
    os.setresgid(request["gid"], request["gid"], request["gid"])
    os.setresuid(request["uid"], request["uid"], request["uid"])
    native.unshare_mounts()
    mount(native)
    native.set_capabilities(effective=False, permitted=bool(request.get("branching")))
    _set_limits(request.get("rlimits") or {}, ("as", "nproc"))
    native.set_dumpable()  # also gives back /proc/self, which changing ids took


def _bind_folders(native: Native, workspace: str) -> None:
    for folder, target in zip(("workspace", "tmp", "shm"), ISOLATED):
        native.bind(os.path.join(workspace, folder), target)
    native.detach(os.path.dirname(workspace))


def _exchange_folders(native: Native, mounts: list[int]) -> None:
    for target in ISOLATED:
        native.detach(target)
    for descriptor, target in zip(mounts, ISOLATED):
        native.attach(descriptor, target)


def _raise_oom_score(score: Any) -> None:
    """Be killed before the agent and the template when memory runs out; where that cannot be said, the order stays as it is."""
    if score is not None:
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(score))


def _set_limits(limits: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if limits.get(name) is not None:
            kind = getattr(resource, f"RLIMIT_{name.upper()}")
            hard = resource.getrlimit(kind)[1]
            limit = (
                limits[name] if hard == resource.RLIM_INFINITY else min(limits[name], hard)
            )  # a process of many rows is given many shares
            resource.setrlimit(kind, (limit, limit))


def hide_ambient_capabilities() -> None:
    """Put the few capabilities that a template's forks need out of reach of every program that the environment's code starts.

    They stay permitted, which the fork's child makes use of; the agent gave them as ambient ones, which child programs would inherit.
    """
    with open("/proc/self/status") as file:
        ambient = next((line.split()[1] for line in file if line.startswith("CapAmb:")), "0")
    if int(ambient, 16):
        native = native_calls()
        native.clear_ambient()
        native.set_capabilities(effective=False, permitted=True)
        native.set_dumpable()
