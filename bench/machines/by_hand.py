"""The runtime called by hand: in a container of ours, beside Sandpool, and with a container of its own."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bench.gvisor import find_runsc
from bench.server import ROOT
from sandpool import Machine

_MACHINES = Path("/run/sandpool")  # see docs/internals/machines.md
_RUNSC_FLAGS = ("--network=none", "--ignore-cgroups", "--platform=systrap", "--overlay2=none")
_NAMESPACES = ("pid", "network", "ipc", "uts", "mount")


class RuntimeOfMachine:
    """`runsc exec` or `runc exec` in the container of a machine, in the namespaces that the machine's runtime lives in."""

    def __init__(self, machine: Machine) -> None:
        (self.folder,) = _MACHINES.glob(f"*/machines/{machine.id}")
        self._command = [str(find_shim()), str(self.folder), "--runtime", "exec", machine.id]

    def exec(self, *argv: str, stdin: IO[bytes] | None = None, stdout: IO[bytes] | None = None) -> None:
        """Run a program to its end; `argv[0]` is a path, for the runtimes search differently."""
        streams = {"stdin": stdin or subprocess.DEVNULL, "stdout": stdout or subprocess.DEVNULL}
        subprocess.run([*self._command, *argv], check=True, **streams)


class OwnContainer:
    """The runtime alone: a container with the host's programs, started and asked for one `true`."""

    def __init__(self, driver: str, folder: Path) -> None:
        self._runsc = driver == "gvisor"
        program, flags = (find_runsc(), _RUNSC_FLAGS) if self._runsc else (shutil.which("runc"), ())
        if program is None:
            raise RuntimeError(f"no runtime for the driver {driver}; bin/sandpool doctor says how to get it")
        self._command = [program, f"--root={folder / 'state'}", *flags]
        self._folder = folder
        self._name = f"bench-{folder.name.lower()}"
        write_bundle(folder)

    def start_and_exec(self) -> None:
        self._run("run", "--detach", "--bundle", str(self._folder), self._name)
        self._run("exec", self._name, "/usr/bin/true")

    def remove(self) -> None:
        self._run("delete", "--force", self._name)

    def close(self) -> None:
        if self._runsc:
            # runsc keeps a network namespace mounted in its state folder.
            subprocess.run(["umount", self._folder / "state" / "null-netns"], check=False, stderr=subprocess.DEVNULL)

    def _run(self, *arguments: str) -> None:
        # A file, not a pipe: the sandbox inherits it and keeps it open.
        with (self._folder / "errors").open("ab") as errors:
            done = subprocess.run([*self._command, *arguments], check=False, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
        if done.returncode != 0:
            said = (self._folder / "errors").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self._command[0]} {arguments[0]} ended with {done.returncode}: {said}")


@contextlib.contextmanager
def own_container(driver: str) -> Iterator[OwnContainer]:
    with tempfile.TemporaryDirectory(prefix="sandpool-bench-") as folder:
        made = OwnContainer(driver, Path(folder))
        try:
            yield made
        finally:
            made.close()


def find_shim() -> Path:
    """The shim of the agent's newest release build in this checkout."""
    found = sorted((ROOT / "agent" / "target").glob("**/release/sandpool-shim"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise RuntimeError("no sandpool-shim in agent/target; build it with `cargo build --release` in agent/")
    return found[-1]


def write_bundle(folder: Path) -> None:
    root = folder / "rootfs"
    for name in ("usr", "proc"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (folder / "config.json").write_text(json.dumps(specification()))


def specification() -> dict[str, Any]:
    return {
        "ociVersion": "1.0.0",
        "process": {"args": ["/usr/bin/sleep", "infinity"], "env": ["PATH=/usr/bin:/bin"], "cwd": "/", "user": {"uid": 0, "gid": 0}},
        "root": {"path": "rootfs", "readonly": True},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
        ],
        "linux": {"namespaces": [{"type": kind} for kind in _NAMESPACES]},
    }
