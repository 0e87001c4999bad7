"""Rollouts in groups, as for training a language model with group-relative advantages: a task a group, several attempts each.

    sandpool up &
    python examples/group_rollouts.py

Each attempt is a coroutine that checks out an environment of its own from the pool, resets it to its group's task and acts until
the tests pass. A scripted policy stands for the model: it reads the program, then tries edits, of which some are wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sandpool import AsyncRLPool

FOLDER = Path(__file__).parent / "shell_task"
EDITS = {
    0: ["sed -i 's|return ordered.*|return ordered[0]|' median.py", "MEDIAN"],
    1: ["sed -i 's|title.lower()|title|' slug.py", "SLUG"],
    2: ["sed -i 's|len(items) - size|len(items) - 1|' chunks.py", "sed -i 's|len(items) - size|len(items)|' chunks.py"],
}
PROGRAMS = {
    "MEDIAN": """cat > median.py <<'END'
def median(numbers):
    if not numbers:
        raise ValueError("no numbers")
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
END""",
    "SLUG": """cat > slug.py <<'END'
import re
def slug(title):
    return "-".join(re.findall("[a-z0-9]+", title.lower()))
END""",
}


class Rollout(NamedTuple):
    """One attempt."""

    task: int
    reward: float
    commands: int
    error: str | None


def act(task: int, commands: int, luck: random.Random) -> str:
    """Choose a command, as the model would from the conversation so far."""
    if commands == 0:
        return "cat *.py"
    edit = luck.choice(EDITS[task])
    return PROGRAMS.get(edit, edit)


async def roll_out(pool: AsyncRLPool, task: int, luck: random.Random, limit: int) -> Rollout:
    """One episode in an environment that is this coroutine's until it ends."""
    async with pool.env() as env:
        await env.reset(options={"task": task})
        for commands in range(limit):
            _, reward, terminated, truncated, info = await env.step(act(task, commands, luck))
            if terminated or truncated:
                error = info.get("sandpool_error")
                return Rollout(task, reward, commands + 1, error and error["kind"])
        return Rollout(task, 0.0, limit, None)


async def main() -> None:
    parser = argparse.ArgumentParser(description="Rollouts in groups")
    parser.add_argument("--envs", type=int, default=8, help="environments")
    parser.add_argument("--attempts", type=int, default=6, help="rollouts of each task")
    parser.add_argument("--limit", type=int, default=4, help="commands of a rollout at most")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    async with AsyncRLPool(FOLDER, options.envs, step_timeout=60) as pool:
        attempts: list[Any] = []
        for task in EDITS:
            for attempt in range(options.attempts):
                luck = random.Random(f"{options.seed} {task} {attempt}")
                attempts.append(roll_out(pool, task, luck, options.limit))
        rollouts = await asyncio.gather(*attempts)
    for task in EDITS:
        # A failed environment is no failed attempt: it is left out of its group.
        group = [rollout for rollout in rollouts if rollout.task == task and rollout.error is None]
        rewards = np.array([rollout.reward for rollout in group])
        # Group-relative advantages: arXiv:2402.03300, section 4.1.
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
        shown = "  ".join(f"{reward:.0f} ({advantage:+.2f})" for reward, advantage in zip(rewards, advantages, strict=True))
        print(f"task {task}: solved {rewards.mean():4.0%}   reward (advantage): {shown}")


if __name__ == "__main__":
    asyncio.run(main())
