"""An asynchronous actor: whatever environment is ready is stepped, and a slow one never holds the fast ones.

    sandpool up &
    python examples/actor_loop.py

One environment in eight is ten times slower, as one that calls a tool is. The same seconds are spent twice: in lock-step, where every
batch is as slow as its slowest row, and in finish order.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from sandpool import RLPool

PROGRAM = """
import time
from sandpool.env import serve

class Walk:
    def __init__(self, index):
        self.seconds = 0.02 if index % 8 == 0 else 0.002
        self.place = 0

    def reset(self, seed):
        self.place = 0
        return [0.0]

    def step(self, action):
        time.sleep(self.seconds)
        self.place += 1 if action else -1
        return [float(self.place)], float(action), abs(self.place) >= 10, False, {}

serve(make=lambda index, config: Walk(index))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="An asynchronous actor")
    parser.add_argument("--envs", type=int, default=16, help="environments")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each half")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "env.py"
        program.write_text(PROGRAM)
        with RLPool(program, options.envs, autoreset="same_step", seed=0) as pool:
            show("lock-step", lock_step(pool, options.seconds), options.seconds)
            show("finish order", finish_order(pool, options.seconds), options.seconds)


def policy(observations: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """One action a row, whichever rows they are."""
    return random.integers(0, 2, len(observations))


def lock_step(pool: RLPool, seconds: float) -> np.ndarray:
    """Steps of each row when all are stepped together."""
    random, steps = np.random.default_rng(0), np.zeros(pool.n, int)
    observations, began = pool.reset(), time.monotonic()
    while time.monotonic() - began < seconds:
        observations = pool.step(policy(observations, random))[0]
        steps += 1
    return steps


def finish_order(pool: RLPool, seconds: float) -> np.ndarray:
    """Steps of each row when each is stepped as soon as it is ready."""
    random, steps = np.random.default_rng(0), np.zeros(pool.n, int)
    pool.send_reset()
    began = time.monotonic()
    while len(pool.rows_out):
        ready = pool.recv()
        steps[ready.index] += ready.ops == "step"
        if time.monotonic() - began < seconds:
            pool.send(policy(ready.obs, random), where=ready.index)
    return steps


def show(name: str, steps: np.ndarray, seconds: float) -> None:
    """Print the steps of a slow row, of a fast one, and of all."""
    print(
        f"{name:<13} slow row {steps[0]:>5}   fast row {steps[1]:>5}   all {steps.sum():>6,} steps, {steps.sum() / seconds:,.0f} a second"
    )


if __name__ == "__main__":
    main()
