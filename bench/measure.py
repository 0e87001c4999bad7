"""Timing of repeated calls, in rounds that alternate between contenders so that a noisy minute hits all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Samples:
    """Durations of single calls, in seconds, of all rounds."""

    rounds: list[np.ndarray] = field(default_factory=list)

    def add(self, durations: list[float]) -> None:
        self.rounds.append(np.asarray(durations))

    def percentile(self, percent: float) -> float:
        return float(np.percentile(np.concatenate(self.rounds), percent))

    def per_second(self, units_per_call: float) -> float:
        """The median over rounds of the units done a second."""
        return float(np.median([units_per_call / durations.mean() for durations in self.rounds]))

    def times(self, other: Samples) -> float:
        """How many times faster than the other: the median over rounds of the ratio within a round, which a noisy minute moves least."""
        return float(np.median([theirs.mean() / ours.mean() for ours, theirs in zip(self.rounds, other.rounds, strict=True)]))


def repeat(call: Callable[[], object], seconds: float, at_least: int = 5) -> list[float]:
    durations = []
    until = time.perf_counter() + seconds
    while len(durations) < at_least or time.perf_counter() < until:
        began = time.perf_counter()
        call()
        durations.append(time.perf_counter() - began)
    return durations


@dataclass(frozen=True)
class Program:
    """A contender that times its own calls: given seconds, it returns the durations."""

    run: Callable[[float], list[float]]


def alternate(contenders: Mapping[str, Callable[[], object] | Program], *, rounds: int, seconds: float) -> dict[str, Samples]:
    """Every contender warms up once, then all take turns; each turn lasts `seconds`."""
    samples = {name: Samples() for name in contenders}
    for call in contenders.values():
        if not isinstance(call, Program):
            repeat(call, seconds / 4)
    for _ in range(rounds):
        for name, call in contenders.items():
            samples[name].add(call.run(seconds) if isinstance(call, Program) else repeat(call, seconds))
    return samples
