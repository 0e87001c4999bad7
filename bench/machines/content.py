"""A large file in and out, against `cat` through the runtime in the same machine."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.machines.boxes import DRIVERS, Kind, box
from bench.machines.by_hand import RuntimeOfMachine
from bench.tables import show
from sandpool import Machine, Sandpool

REMOTE = "/root/content"
_PIECE_BYTES = 16 << 20


def measure(client: Sandpool, size_bytes: int, *, rounds: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="sandpool-bench-") as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        write_content(source, size_bytes)
        for driver in DRIVERS:
            size = {"vcpu": 1, "memory": "1GiB", "disk": 2 * size_bytes + (1 << 30)}
            with box(client, Kind(driver), size=size) as machine:
                calls = transfers(client, machine, source, target)
                seconds = {name: [seconds_of(call) for _ in range(rounds)] for name, call in calls.items()}
            results[driver] = {name: size_bytes / float(np.median(durations)) for name, durations in seconds.items()}
    show_results(results, size_bytes)
    return results


def transfers(client: Sandpool, machine: Machine, source: Path, target: Path) -> dict[str, Callable[[], object]]:
    """In this order, so that there is something to bring back. Both uploads end once the content is on the machine's disk."""
    by_hand = RuntimeOfMachine(machine)

    def cat_in() -> None:
        with source.open("rb") as content:
            by_hand.exec("/bin/sh", "-c", f"cat > {REMOTE} && sync {REMOTE}", stdin=content)

    def cat_out() -> None:
        with target.open("wb") as content:
            by_hand.exec("/usr/bin/cat", REMOTE, stdout=content)

    return {
        "cat in": cat_in,
        "upload": lambda: client.machines.files.upload(machine, source, REMOTE),
        "cat out": cat_out,
        "download": lambda: client.machines.files.download(machine, REMOTE, target),
    }


def write_content(path: Path, size_bytes: int) -> None:
    """Content that no layer below could shrink."""
    piece = os.urandom(_PIECE_BYTES)
    with path.open("wb") as file:
        for offset in range(0, size_bytes, _PIECE_BYTES):
            file.write(piece[: size_bytes - offset])


def seconds_of(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def show_results(results: dict[str, Any], size_bytes: int) -> None:
    rows = []
    for driver, rates in results.items():
        for ours, theirs in (("upload", "cat in"), ("download", "cat out")):
            rows.append(
                [f"{driver}, {ours}", f"{rates[ours] / 1e6:.0f}", f"{rates[theirs] / 1e6:.0f}", f"{rates[ours] / rates[theirs]:.2f}x"]
            )
    note = "Sandpool hashes the content at both ends and replaces the file in one moment; uploads end once the content is synced"
    show(f"One file of {size_bytes / 2**30:g} GiB", ["", "Sandpool MB/s", "cat through the runtime MB/s", "Sandpool is"], rows, note)
