"""Image observations: 84x84x4 bytes a row, as Atari's preprocessing gives them."""

from __future__ import annotations

import contextlib
import runpy
import sys
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv

from bench.measure import alternate
from bench.server import ENVIRONMENTS, Server
from bench.speeds import show_speeds
from sandpool.gymnasium import SandpoolVecEnv

ROWS = 64


def run(server: Server, *, quick: bool) -> dict[str, Any]:
    folder = ENVIRONMENTS / "images"
    frames = runpy.run_path(str(folder / "env.py"))["Frames"]
    with contextlib.ExitStack() as stack:
        environments: dict[str, Any] = {"AsyncVectorEnv": AsyncVectorEnv([frames] * ROWS, shared_memory=True)}
        for name, rows_per_process in (("SandpoolVecEnv", 1), ("SandpoolVecEnv, packed", ROWS // 2)):
            environments[name] = SandpoolVecEnv(folder, ROWS, python=sys.executable, envs_per_process=rows_per_process, progress=False)
        contenders = {}
        for name, environment in environments.items():
            stack.callback(environment.close)
            environment.reset(seed=0)
            contenders[name] = stepper(environment)
        samples = alternate(contenders, rounds=3 if quick else 6, seconds=1.0 if quick else 3.0)
    note = "AsyncVectorEnv with shared memory"
    return show_speeds(f"84x84x4 frames, n = {ROWS}", samples, "SandpoolVecEnv", ROWS, {"AsyncVectorEnv": 1.0}, note)


def stepper(environment: Any) -> Any:
    generator = np.random.default_rng(0)
    return lambda: environment.step(generator.integers(0, 6, ROWS))
