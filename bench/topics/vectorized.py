"""A vectorised environment in each process, against the same one in the trainer's process."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from typing import Any

from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

from bench.contenders import stepper
from bench.measure import alternate
from bench.server import ENVIRONMENTS, Server
from bench.speeds import show_speeds
from bench.tables import console
from sandpool import RLPool

# The first takes the environment less than a millisecond a batch, the second more.
ROWS = {"gymnasium": (10_000, 50_000), "envpool": (400, 4000)}


def run(server: Server, *, quick: bool) -> list[dict[str, Any]]:
    kinds = ["gymnasium"]
    if importlib.util.find_spec("envpool") is None:
        console.print("envpool is not installed: no table for it (pip install envpool)", style="dim")
    else:
        kinds.append("envpool")
    return [measure(kind, n, quick=quick) for kind in kinds for n in ROWS[kind]]


def measure(kind: str, n: int, *, quick: bool) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        local = local_environment(kind, n)
        stack.callback(local.close)
        local.reset(seed=0)
        pool = stack.enter_context(
            RLPool(
                ENVIRONMENTS / "vector", n, config={"kind": kind}, autoreset="auto", envs_per_process=n // 2, python=sys.executable,
                branching=False, progress=False, seed=0,
            )
        )  # fmt: skip
        contenders = {"RLPool": stepper(pool, n), "trainer's process": stepper(local, n)}
        samples = alternate(contenders, rounds=3 if quick else 6, seconds=1.0 if quick else 3.0)
    return show_speeds(f"{kind}'s vectorised CartPole-v1, n = {n}", samples, "RLPool", n, {"trainer's process": 0.8}, "in two sandboxes")


def local_environment(kind: str, n: int) -> Any:
    if kind == "envpool":
        import envpool

        return envpool.make_gymnasium("CartPole-v1", num_envs=n, num_threads=1)
    return CartPoleVectorEnv(num_envs=n)
