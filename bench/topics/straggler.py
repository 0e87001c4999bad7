"""A batch in which one environment hangs: it returns by the deadline, and the others are served."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench.server import ENVIRONMENTS, Server
from bench.tables import ratio, show
from sandpool import RLPool


def run(server: Server, *, quick: bool) -> dict[str, Any]:
    deadline_seconds, n = 1.0, 64
    durations = []
    with RLPool(ENVIRONMENTS / "straggler", n, step_timeout=deadline_seconds, progress=False) as pool:
        for repetition in range(3 if quick else 10):
            actions = np.zeros(n, dtype=np.int64)
            actions[repetition % n] = 1
            began = time.perf_counter()
            result = pool.step(actions)
            durations.append(time.perf_counter() - began)
            assert list(result.errors) == [repetition % n] and result.rewards.sum() == n - 1
            pool.reset(where=[repetition % n])
    worst = max(durations)
    show(
        f"A straggler among {n} rows, deadline {deadline_seconds} s",
        ["", "p50 s", "worst s", "worst against deadline", "target"],
        [["the whole batch", f"{float(np.median(durations)):.3f}", f"{worst:.3f}", ratio(worst, deadline_seconds), "1.10x"]],
    )
    return {"durations_s": durations}
