"""Rollouts in groups that share their beginning: the prefix is played once, then its environment is forked to the whole group.

    sandpool up &
    python examples/branched_rollouts.py

A language model's attempts at one task often differ only from some turn on: they have read the same files and run the same tests. Here
that prefix is a few shell commands; after it every attempt edits the program in its own way. The same attempts are then made again with
the prefix replayed in each row, which comes to the same rewards and costs more.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from sandpool import RLPool

FOLDER = Path(__file__).parent / "shell_task"
TASK = 2  # a list cut into pieces loses the last one
PREFIX = [
    "ls -l",
    "cat *.py",
    "python3 -c 'import chunks; print(chunks.chunks([1, 2, 3], 2))'",
    "python3 -c 'import chunks; print(chunks.chunks([], 3))' | tee -a notes",
    "cp chunks.py before.py; echo 'the last piece is lost' >> notes; cat notes",
]
EDITS = [
    "sed -i 's|len(items) - size|len(items)|' chunks.py",
    "sed -i 's|len(items) - size|len(items) - 1|' chunks.py",
    "sed -i 's|, size)]|, 1)]|' chunks.py",
    "diff before.py chunks.py; sed -i 's|range(0, len(items) - size, size)|range(0, len(items), size)|' chunks.py",
]


def by_fork(pool: RLPool, prefix: list[str]) -> int:
    """Play the prefix in row 0 and fork it to the others; returns the commands that were run."""
    pool.reset(where=[0], options={"task": TASK})
    for command in prefix:
        pool.step([command], where=[0])
    pool.fork(0, range(1, pool.n))
    return len(prefix)


def by_replay(pool: RLPool, prefix: list[str]) -> int:
    """Play the prefix in every row; returns the commands that were run."""
    pool.reset(options={"task": TASK})
    for command in prefix:
        pool.step([command] * pool.n)
    return len(prefix) * pool.n


def finish(pool: RLPool) -> np.ndarray:
    """The reward of each row's own continuation."""
    return pool.step([EDITS[row % len(EDITS)] for row in range(pool.n)]).rewards


def main() -> None:
    parser = argparse.ArgumentParser(description="Rollouts from a shared prefix")
    parser.add_argument("--envs", type=int, default=16, help="attempts in the group")
    parser.add_argument("--prefix", type=int, default=len(PREFIX), help="commands of the prefix")
    options = parser.parse_args()
    prefix = PREFIX[: options.prefix]
    with RLPool(FOLDER, options.envs, seed=0, step_timeout=60) as pool:
        costs, rewards = [], []
        for name, begin in (("forked", by_fork), ("replayed", by_replay)):
            began = time.monotonic()
            commands = begin(pool, prefix)
            costs.append(time.monotonic() - began)
            rewards.append(finish(pool))
            shown = " ".join(f"{reward:.0f}" for reward in rewards[-1])
            print(f"prefix {name:<8}  {commands:>3} commands  {costs[-1]:6.2f} s   rewards {shown}")
    same = "the same" if (rewards[0] == rewards[1]).all() else "different"
    print(f"{same} rewards; the prefix costs {costs[1] / costs[0]:.1f} times as much when every attempt replays it")


if __name__ == "__main__":
    main()
