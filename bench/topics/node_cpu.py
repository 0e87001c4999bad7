"""The server's processor time a batch of image frames, in copies of the batch's body."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.server import ENVIRONMENTS, ROOT, Server
from bench.tables import show
from sandpool import RLPool

ROWS = (64, 256)
ROW_BYTES = 84 * 84 * 4
TARGET_COPIES = 3.0
NOTE = """Copy: Buffer.copy of the body's size in another Node process, one after each batch, so that both find the caches as a
batch leaves them. The kernel's two copies, in from the agents and out to the client, are part of a batch."""
COPIER = """
const [from, to] = [1, 2].map((fill) => Buffer.alloc(Number(process.argv[1]), fill));
process.stdin.on("data", () => {
  const before = process.cpuUsage();
  from.copy(to);
  const { user, system } = process.cpuUsage(before);
  process.stdout.write(`${(user + system) / 1000}\\n`);
});
"""


def run(server: Server, *, quick: bool) -> list[dict[str, Any]]:
    results = []
    for n in ROWS:
        for way, url in (("unix socket", server.url), ("TCP", server.url.replace("127.0.0.1", "localhost"))):
            results.append({"n": n, "way": way, **measure(server, url, n, rounds=3 if quick else 8, batches=20 if quick else 60)})
    rows = [
        [f"n = {one['n']}, {one['way']}", f"{one['batch_ms']:.2f}", f"{one['copy_ms']:.2f}", f"{one['copies']:.1f}", f"{TARGET_COPIES:.1f}"]
        for one in results
    ]
    show(f"CPU of Node a batch, frames of {ROW_BYTES} bytes", ["", "batch ms", "copy ms", "batch in copies", "target"], rows, NOTE)
    return results


def measure(server: Server, url: str, n: int, *, rounds: int, batches: int) -> dict[str, float]:
    """Median over rounds; a warm-up first, until V8 has compiled the step path."""
    batch_ms, copy_ms = [], []
    actions = np.zeros(n, dtype=np.int64)
    # Without branching the pool is divided over the cores, so that the server has fragments to join.
    options: dict[str, Any] = {"envs_per_process": n // 4, "branching": False, "python": sys.executable, "progress": False}
    with RLPool(ENVIRONMENTS / "images", n, url=url, api_key=server.key, **options) as pool, copier(n * ROW_BYTES) as copy:
        for _ in range(8 * batches):
            pool.step(actions)
            copy()
        for _ in range(rounds):
            before, copied = cpu_ms(server.process_id), 0.0
            for _ in range(batches):
                pool.step(actions)
                copied += copy()
            batch_ms.append((cpu_ms(server.process_id) - before) / batches)
            copy_ms.append(copied / batches)
    copies = np.median(np.divide(batch_ms, copy_ms))
    return {"batch_ms": float(np.median(batch_ms)), "copy_ms": float(np.median(copy_ms)), "copies": float(copies)}


def cpu_ms(process_id: int) -> float:
    """Of all threads, collector and compiler included."""
    tasks = Path(f"/proc/{process_id}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


@contextlib.contextmanager
def copier(size_bytes: int) -> Iterator[Callable[[], float]]:
    """Copies that many bytes once when it is called; returns the milliseconds of processor time."""
    own = ROOT / ".tools/node/bin/node"
    command = [str(own) if own.exists() else "node", "-e", COPIER, str(size_bytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def copy() -> float:
            stdin.write(b"\n")
            stdin.flush()
            return float(stdout.readline())

        yield copy
        stdin.close()
