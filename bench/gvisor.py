"""gVisor's checkpoint and restore of one Python process, with the flags that took the least time; runs only where a runsc is found."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PINNED = "gvisor.dev/gvisor/runsc@v0.0.0-20260905035102-160fafc42237"
PROGRAM = """
import itertools, time
import gymnasium
environment = gymnasium.make("CartPole-v1")
environment.reset(seed=0)
for step in itertools.count():
    environment.unwrapped.step(step % 2)
    print(step, flush=True)
    time.sleep(0.001)
"""


def find_runsc() -> str | None:
    """The program, on the PATH or in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sandpool" / "bin" / "runsc"
    return shutil.which("runsc") or (str(cache) if os.access(cache, os.X_OK) else None)


def how_to_get_runsc() -> str:
    """What a reader without one may do."""
    return f'GOBIN="$HOME/.cache/sandpool/bin" CGO_ENABLED=0 go install {PINNED}   (two minutes, Go 1.26)'


class Checkpoints:
    """A container that steps CartPole, and its checkpoints."""

    def __init__(self, runsc: str, folder: Path) -> None:
        flags = ["--network=none", "--ignore-cgroups", "--platform=systrap", f"--overlay2=root:dir={folder / 'layers'}"]
        self._command = [runsc, f"--root={folder / 'state'}", *flags]
        self._folder = folder
        self._count = 0
        self._bundle = folder / "bundle"
        self._bundle.mkdir()
        (folder / "layers").mkdir()
        (self._bundle / "config.json").write_text(json.dumps(specification()))
        self._source = self._start("run", "--bundle", str(self._bundle), "source")

    def copy_once(self) -> tuple[float, float]:
        """Seconds of a checkpoint that leaves the source running, and of a restore until the copy's first line."""
        self._count += 1
        name, image = f"copy{self._count:04}", self._folder / f"image{self._count}"
        image.mkdir()
        began = time.perf_counter()
        self._run("checkpoint", "--leave-running", f"--image-path={image}", "source")
        saved = time.perf_counter()
        copy = self._start("restore", "--bundle", str(self._bundle), f"--image-path={image}", name)
        restored = time.perf_counter()
        self._end(name, copy)
        shutil.rmtree(image)
        return saved - began, restored - saved

    def close(self) -> None:
        self._end("source", self._source)
        # runsc keeps a network namespace mounted in its state folder.
        subprocess.run(["umount", self._folder / "state" / "null-netns"], check=False, stderr=subprocess.DEVNULL)

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a container and wait for the first line of its process."""
        errors = (self._folder / "errors").open("ab")
        process = subprocess.Popen([*self._command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        errors.close()
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"runsc {arguments[0]} ended with {process.wait()}: {(self._folder / 'errors').read_text()[-2000:]}")
        return process

    def _end(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self._run("delete", "--force", name)
        assert process.stdout is not None
        process.stdout.close()
        process.wait(30)

    def _run(self, *arguments: str) -> None:
        # A file, not a pipe: the sandbox may inherit it and keep it open.
        with (self._folder / "errors").open("ab") as errors:
            subprocess.run([*self._command, *arguments], check=True, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)


@contextlib.contextmanager
def checkpoints(runsc: str) -> Iterator[Checkpoints]:
    with tempfile.TemporaryDirectory(prefix="sandpool-bench-") as folder:
        made = Checkpoints(runsc, Path(folder))
        try:
            yield made
        finally:
            made.close()


def specification() -> dict[str, Any]:
    """An OCI configuration: this interpreter on the host's own files, read-only."""
    return {
        "ociVersion": "1.0.0",
        "process": {
            "args": [sys.executable, "-c", PROGRAM],
            "env": ["PATH=/usr/bin:/bin", "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1"],
            "cwd": "/",
            "user": {"uid": 0, "gid": 0},
        },
        "root": {"path": "/", "readonly": True},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
    }
