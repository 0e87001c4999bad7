"""Rows that do not wait for each other: one environment in ten is ten times slower."""

from __future__ import annotations

import time
from typing import Any

from bench.measure import Program, alternate
from bench.server import ENVIRONMENTS, Server
from bench.speeds import show_speeds
from sandpool import RLPool

ROWS = 40


def run(server: Server, *, quick: bool) -> dict[str, Any]:
    with RLPool(ENVIRONMENTS / "mixed", ROWS, progress=False) as pool:
        contenders = {"send and recv": Program(lambda seconds: finish_order(pool, seconds)), "lock-step": lambda: pool.step([0] * ROWS)}
        samples = alternate(contenders, rounds=3 if quick else 6, seconds=1.0 if quick else 3.0)
    note = "one row in ten waits 20 ms, the others 2 ms; a call: the time in which as many steps were made as there are rows"
    return show_speeds(f"Waiting environments, n = {ROWS}", samples, "send and recv", ROWS, {"lock-step": 3.0}, note)


def finish_order(pool: RLPool, seconds: float) -> list[float]:
    """Step whatever is ready; return the mean time of ROWS steps."""
    began, steps, out = time.perf_counter(), 0, ROWS
    pool.send([0] * ROWS)
    while out:
        ready = pool.recv()
        steps += len(ready.index)
        out -= len(ready.index)
        if time.perf_counter() - began < seconds:
            pool.send([0] * len(ready.index), where=ready.index)
            out += len(ready.index)
    return [(time.perf_counter() - began) * ROWS / steps]
