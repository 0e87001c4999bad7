"""How long batches took."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

_KEPT_BATCHES = 10_000


class Timing:
    """Times of a pool's batches.

    Attributes:
        worker_ms: the last batch, from its arrival in the worker to its reply.
        roundtrip_ms: the same batch, seen from here.
        slowest_ms: the slowest row of it.
        stragglers: indices of the rows that missed their deadline in it.
        stragglers_total: rows that missed their deadline since this object exists.
    """

    def __init__(self) -> None:
        self.worker_ms = 0.0
        self.roundtrip_ms = 0.0
        self.slowest_ms = 0.0
        self.stragglers: list[int] = []
        self.stragglers_total = 0
        self._batches: deque[tuple[float, float, float]] = deque(maxlen=_KEPT_BATCHES)

    def record(self, timing: dict[str, Any], roundtrip_ms: float) -> None:
        """Take the `timing` of a reply and the time it took."""
        self.worker_ms = timing.get("worker_ms", 0.0)
        self.slowest_ms = timing.get("slowest_ms", 0.0)
        self.stragglers = timing.get("stragglers", [])
        self.roundtrip_ms = roundtrip_ms
        self.stragglers_total += len(self.stragglers)
        self._batches.append((self.worker_ms, roundtrip_ms, self.slowest_ms))

    def summary(self) -> dict[str, Any]:
        """Return p50, p95 and p99 of `worker_ms`, `roundtrip_ms` and the slowest row's `slowest_ms`, over the last 10,000 batches."""
        batches = np.array(self._batches, np.float64).reshape(-1, 3)
        names = ("worker_ms", "roundtrip_ms", "slowest_ms")
        summary: dict[str, Any] = {"batches": len(batches), "stragglers_total": self.stragglers_total}
        for name, column in zip(names, batches.T, strict=True):
            values = np.percentile(column, (50, 95, 99)) if len(batches) else np.full(3, np.nan)
            summary[name] = dict(zip(("p50", "p95", "p99"), values.tolist(), strict=True))
        return summary

    def __repr__(self) -> str:
        return (
            f"Timing(worker_ms={self.worker_ms:.3f}, roundtrip_ms={self.roundtrip_ms:.3f}, stragglers={self.stragglers}, "
            f"stragglers_total={self.stragglers_total})"
        )
