"""Environment steps a second, end to end, one process each."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from bench.contenders import gymnasium_vector, has_stable_baselines3, native_floor, rlpool, stepper, subproc_vec_env
from bench.measure import Program, alternate
from bench.server import Server
from bench.speeds import show_speeds
from bench.tables import console

ROWS = (8, 64, 256, 1000)
NOTE = """SyncVectorEnv runs in the trainer's own process without isolation; "RLPool is": median over rounds of the ratio within a round.
RLPool has branching=False, which divides it over the cores."""
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
        contenders: dict[str, Any] = {
            "RLPool": stepper(stack.enter_context(rlpool(n, branching=False)), n),
            "AsyncVectorEnv": stepper(stack.enter_context(gymnasium_vector(AsyncVectorEnv, n)), n),
            "SyncVectorEnv": stepper(stack.enter_context(gymnasium_vector(SyncVectorEnv, n)), n),
        }
        if has_stable_baselines3() and n <= 256:
            contenders["SubprocVecEnv"] = stepper(stack.enter_context(subproc_vec_env(n)), n)
        contenders["native floor"] = Program(lambda length: native_floor(n, length, Path(folder)))
        samples = alternate(contenders, rounds=rounds, seconds=seconds)
    targets = {name: by_rows[n] for name, by_rows in TARGETS.items() if n in by_rows}
    return show_speeds(f"CartPole-v1, n = {n}", samples, "RLPool", n, targets, NOTE if n == ROWS[0] else "")
