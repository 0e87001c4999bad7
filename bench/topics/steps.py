"""Environment steps a second, end to end, one process each."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from bench.contenders import gymnasium_vector, has_stable_baselines3, native_floor, rlpool, stepper, subproc_vec_env
from bench.measure import alternate
from bench.server import Server
from bench.tables import console, ratio, show

ROWS = (8, 64, 256, 1000)
TARGETS = {
    "AsyncVectorEnv": {8: 1.0, 64: 1.7, 256: 2.0, 1000: 3.0},
    "SubprocVecEnv": {64: 2.0},
    "native floor": {64: 0.85, 256: 0.85, 1000: 0.85},
}


def run(server: Server, *, quick: bool) -> list[dict[str, Any]]:
    if not has_stable_baselines3():
        console.print("stable-baselines3 is not installed: no SubprocVecEnv column (pip install stable-baselines3)", style="dim")
    return [measure(n, rounds=2 if quick else 4, seconds=0.7 if quick else 2.0) for n in ROWS]


def measure(n: int, *, rounds: int, seconds: float) -> dict[str, Any]:
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        contenders = {
            "RLPool": stepper(stack.enter_context(rlpool(n)), n),
            "AsyncVectorEnv": stepper(stack.enter_context(gymnasium_vector(AsyncVectorEnv, n)), n),
            "SyncVectorEnv": stepper(stack.enter_context(gymnasium_vector(SyncVectorEnv, n)), n),
        }
        if has_stable_baselines3() and n <= 256:
            contenders["SubprocVecEnv"] = stepper(stack.enter_context(subproc_vec_env(n)), n)
        samples = alternate(contenders, rounds=rounds, seconds=seconds)
        floor = native_floor(n, rounds * seconds / 2, Path(folder))
        again = alternate({"RLPool": contenders["RLPool"]}, rounds=rounds, seconds=seconds)["RLPool"]
    samples["RLPool"].rounds += again.rounds
    figures: dict[str, Any] = {
        name: {"steps_per_second": one.per_second(n), "p50_ms": one.percentile(50) * 1e3, "p99_ms": one.percentile(99) * 1e3}
        for name, one in samples.items()
    }
    figures["native floor"] = {
        "steps_per_second": floor["steps_per_second"],
        "p50_ms": floor["p50_us"] / 1e3,
        "p99_ms": floor["p99_us"] / 1e3,
    }
    report(n, figures)
    return {"n": n, **figures}


def report(n: int, figures: dict[str, Any]) -> None:
    ours = figures["RLPool"]["steps_per_second"]
    rows = []
    for name, one in figures.items():
        target = TARGETS.get(name, {}).get(n)
        against = "" if name == "RLPool" else ratio(ours, one["steps_per_second"])
        rows.append(
            [
                name,
                f"{one['steps_per_second']:,.0f}",
                f"{one['p50_ms']:.2f}",
                f"{one['p99_ms']:.2f}",
                against,
                f"{target}x" if target else "",
            ]
        )
    show(
        f"CartPole-v1, n = {n}",
        ["", "env steps/s", "batch p50 ms", "batch p99 ms", "RLPool is", "target"],
        rows,
        "SyncVectorEnv runs in the trainer's own process without isolation" if n == ROWS[0] else "",
    )
