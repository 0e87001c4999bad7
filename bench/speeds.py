"""The table of environment steps a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.measure import Samples
from bench.tables import show


def show_speeds(
    title: str, samples: Mapping[str, Samples], ours: str, n: int, targets: Mapping[str, float], note: str = ""
) -> dict[str, Any]:
    """Print one row a contender, and how many times faster than it `ours` is; return the figures."""
    rows, figures = [], {}
    for name, one in samples.items():
        figure = {"steps_per_second": one.per_second(n), "p50_ms": one.percentile(50) * 1e3, "p99_ms": one.percentile(99) * 1e3}
        figures[name] = {**figure, "ours_is": samples[ours].times(one)}
        target = targets.get(name)
        against = "" if name == ours else f"{samples[ours].times(one):.2f}x"
        speed = f"{figure['steps_per_second']:,.0f}"
        rows.append([name, speed, f"{figure['p50_ms']:.2f}", f"{figure['p99_ms']:.2f}", against, f"{target}x" if target else ""])
    show(title, ["", "env steps/s", "batch p50 ms", "batch p99 ms", f"{ours} is", "target"], rows, note)
    return {"n": n, **figures}
