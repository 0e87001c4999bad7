"""Many cheap environments in a few processes, against all of them in the trainer's own process."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from bench.contenders import gymnasium_vector, rlpool, stepper
from bench.measure import alternate
from bench.server import Server
from bench.speeds import show_speeds
from sandpool.gymnasium import SandpoolVecEnv

ROWS = 1000
TARGETS = {"SyncVectorEnv": 1.3, "AsyncVectorEnv": 30.0}


def run(server: Server, *, quick: bool) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        adapter = SandpoolVecEnv.from_gym(
            "CartPole-v1", n=ROWS, autoreset_mode=AutoresetMode.NEXT_STEP, requirements=[], python=sys.executable, branching=False,
            progress=False,
        )  # fmt: skip
        stack.callback(adapter.close)
        adapter.reset(seed=0)
        environments = {
            "SandpoolVecEnv": adapter,
            "RLPool": stack.enter_context(rlpool(ROWS, envs_per_process="auto", branching=False)),
            "SyncVectorEnv": stack.enter_context(gymnasium_vector(SyncVectorEnv, ROWS)),
            "AsyncVectorEnv": stack.enter_context(gymnasium_vector(AsyncVectorEnv, ROWS)),
        }
        contenders = {name: stepper(environment, ROWS) for name, environment in environments.items()}
        samples = alternate(contenders, rounds=3 if quick else 6, seconds=1.0 if quick else 3.0)
    note = """SyncVectorEnv runs in the trainer's own process without isolation; AsyncVectorEnv has a process for each environment.
Ours have branching=False, which divides them over the cores."""
    return show_speeds(f"CartPole-v1 packed, n = {ROWS}", samples, "SandpoolVecEnv", ROWS, TARGETS, note)
