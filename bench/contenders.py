"""The same CartPole behind every interface: same `gymnasium.make`, same wrappers, one numerical thread each, autoreset on the next step."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from bench.server import ENVIRONMENTS, ROOT
from sandpool import RLPool

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ[variable] = "1"


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


@contextlib.contextmanager
def rlpool(n: int, **options: Any) -> Iterator[RLPool]:
    """Runs on the trainer's own interpreter and packages, so both sides step the same code."""
    settings = {"autoreset": "next_step", "seed": 0, "python": sys.executable, "progress": False, **options}
    with RLPool(ENVIRONMENTS / "cartpole", n, **settings) as pool:
        yield pool


@contextlib.contextmanager
def gymnasium_vector(kind: type[SyncVectorEnv] | type[AsyncVectorEnv], n: int) -> Iterator[Any]:
    environment = kind([cartpole] * n, autoreset_mode=AutoresetMode.NEXT_STEP)
    try:
        environment.reset(seed=0)
        yield environment
    finally:
        environment.close()


@contextlib.contextmanager
def subproc_vec_env(n: int) -> Iterator[Any]:
    from stable_baselines3.common.vec_env import SubprocVecEnv

    environment = SubprocVecEnv([cartpole] * n, start_method="fork")
    try:
        environment.reset()
        yield environment
    finally:
        environment.close()


def stepper(environment: Any, n: int) -> Callable[[], object]:
    """One batch of random actions; the actions are drawn outside the environment and cost the same for all."""
    generator = np.random.default_rng(0)
    return lambda: environment.step(generator.integers(0, 2, n))


def has_stable_baselines3() -> bool:
    with contextlib.suppress(ImportError):
        import stable_baselines3  # noqa: F401

        return True
    return False


def native_floor(n: int, seconds: float, folder: Path) -> list[float]:
    """Durations of single batches of the bare fan-out of bench/floor over the same processes."""
    manifest = ROOT / "bench/floor/Cargo.toml"
    subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest], check=True)
    program = folder / "cartpole"
    if not program.exists():
        shutil.copytree(ENVIRONMENTS / "cartpole", program)
        (program / "sandpool").mkdir()
        (program / "sandpool" / "__init__.py").touch()
        shutil.copytree(ROOT / "python/src/sandpool/env", program / "sandpool/env", ignore=shutil.ignore_patterns("__pycache__"))
    command = [ROOT / "bench/floor/target/release/floor", str(n), str(seconds), sys.executable, program / "env.py"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [micros / 1e6 for micros in json.loads(output)["batches_us"]]
