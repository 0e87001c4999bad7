"""Figures of samples, for tables and for the JSON file."""

from __future__ import annotations

from bench.measure import Samples


def milliseconds(*samples: Samples) -> list[str]:
    """One cell each: p50 and p99."""
    return [f"{one.percentile(50) * 1e3:.1f}, {one.percentile(99) * 1e3:.1f}" for one in samples]


def figures(samples: Samples) -> dict[str, float]:
    return {"p50_ms": samples.percentile(50) * 1e3, "p99_ms": samples.percentile(99) * 1e3}
