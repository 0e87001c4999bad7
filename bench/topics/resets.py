"""Soft and hard reset of single rows in a pool of 64."""

from __future__ import annotations

from typing import Any

from bench.contenders import rlpool
from bench.measure import Samples, repeat
from bench.server import Server
from bench.tables import show


def run(server: Server, *, quick: bool) -> dict[str, Any]:
    seconds = 1.0 if quick else 4.0
    soft, hard = Samples(), Samples()
    with rlpool(64) as pool:
        soft.add(repeat(lambda: pool.reset(where=[7]), seconds))
        hard.add(repeat(lambda: pool.reset(where=[7], hard=True), seconds))
    figures = {
        name: {"p50_ms": one.percentile(50) * 1e3, "p99_ms": one.percentile(99) * 1e3} for name, one in {"soft": soft, "hard": hard}.items()
    }
    show(
        "Reset of one row of 64",
        ["", "p50 ms", "p99 ms", "target p50"],
        [
            ["soft: the environment's own", f"{figures['soft']['p50_ms']:.2f}", f"{figures['soft']['p99_ms']:.2f}", ""],
            ["hard: a fresh process and workspace", f"{figures['hard']['p50_ms']:.2f}", f"{figures['hard']['p99_ms']:.2f}", "15 ms"],
        ],
    )
    return figures
