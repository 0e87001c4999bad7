"""Proportional set size of CartPole environments that import numpy and gymnasium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymnasium.vector import AsyncVectorEnv

from bench.contenders import gymnasium_vector, rlpool, stepper
from bench.server import Server
from bench.tables import show


def run(server: Server, *, quick: bool) -> list[dict[str, Any]]:
    results = []
    for n in (64,) if quick else (64, 1000):
        with rlpool(n) as pool:
            step = stepper(pool, n)
            for _ in range(100):
                step()
            ours = [row["pss_bytes"] for row in pool.status(memory=True)["rows"]]
        with gymnasium_vector(AsyncVectorEnv, n) as peer:
            step = stepper(peer, n)
            for _ in range(20):
                step()
            theirs = [pss_bytes(process.pid) for process in peer.processes]
        results.append({"n": n, "RLPool": sum(ours) / n, "AsyncVectorEnv": sum(theirs) / n})
    show(
        "Memory of one environment after 100 steps (PSS, all of its processes)",
        ["rows", "RLPool MB", "AsyncVectorEnv MB", "target"],
        [[str(one["n"]), f"{one['RLPool'] / 1e6:.2f}", f"{one['AsyncVectorEnv'] / 1e6:.2f}", "4 MB"] for one in results],
    )
    return results


def pss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no Pss line for process {pid}")
