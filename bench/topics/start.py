"""From the constructor to the first observations of all rows."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

from gymnasium.vector import AsyncVectorEnv

from bench.contenders import gymnasium_vector, rlpool
from bench.server import Server
from bench.tables import ratio, show


def run(server: Server, *, quick: bool) -> list[dict[str, Any]]:
    results = []
    for n in (64, 1000):
        ours, theirs = [], []
        for _ in range(1 if quick else 3):
            ours.append(seconds_to_start(rlpool(n)))
            theirs.append(seconds_to_start(gymnasium_vector(AsyncVectorEnv, n)))
        results.append({"n": n, "RLPool": sorted(ours)[len(ours) // 2], "AsyncVectorEnv": sorted(theirs)[len(theirs) // 2]})
    show(
        "Start of CartPole-v1, first reset included",
        ["rows", "RLPool s", "AsyncVectorEnv s", "RLPool takes", "target"],
        [
            [str(one["n"]), f"{one['RLPool']:.2f}", f"{one['AsyncVectorEnv']:.2f}", ratio(one["RLPool"], one["AsyncVectorEnv"]), "1.0x"]
            for one in results
        ],
    )
    return results


def seconds_to_start(context: AbstractContextManager[Any]) -> float:
    began = time.perf_counter()
    with context:
        return time.perf_counter() - began
