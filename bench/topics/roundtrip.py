"""One environment: the whole round trip of a step against an empty request to the same server."""

from __future__ import annotations

from typing import Any

import numpy as np
import urllib3

from bench.contenders import rlpool
from bench.measure import alternate
from bench.server import Server
from bench.tables import ratio, show


def run(server: Server, *, quick: bool) -> dict[str, Any]:
    http = urllib3.PoolManager(maxsize=1)
    action = np.zeros(1, dtype=np.int64)
    with rlpool(1) as pool:
        samples = alternate(
            {
                "empty request (urllib3)": lambda: http.request("GET", f"{server.url}/v1/health"),
                "step of one row": lambda: pool.step(action),
            },
            rounds=2 if quick else 5,
            seconds=0.5 if quick else 2.0,
        )
    figures = {name: {"p50_ms": one.percentile(50) * 1e3, "p99_ms": one.percentile(99) * 1e3} for name, one in samples.items()}
    empty, step = figures["empty request (urllib3)"], figures["step of one row"]
    show(
        "One environment",
        ["", "p50 ms", "p99 ms", "against empty", "target"],
        [
            ["empty request (urllib3)", f"{empty['p50_ms']:.3f}", f"{empty['p99_ms']:.3f}", "", ""],
            ["step of one row", f"{step['p50_ms']:.3f}", f"{step['p99_ms']:.3f}", ratio(step["p50_ms"], empty["p50_ms"]), "3.0x"],
        ],
    )
    return figures
