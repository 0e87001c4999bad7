"""How long a step takes, for the choice of how many environments share a process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sandpool.env.environments import five_values
from sandpool.env.vector_step import batch

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.environments import Environment
    from sandpool.env.vector import VectorRows

MEASURE_SECONDS = 0.05
MEASURE_STEPS = 300
ACTIONS = 32


def measure(environment: Environment) -> dict[str, Any]:
    """Step an environment that was reset with sampled actions: `{"step_us", "steps"}`, with the resets at the ends of episodes.

    `{"step_us": None, "reason"}` where it announces no action space or fails.
    """
    if environment.action_space is None:
        return {"step_us": None, "reason": "no action space"}
    try:
        actions = [environment.action_space.sample() for _ in range(ACTIONS)]
        steps = 0
        start = time.perf_counter()
        while steps < MEASURE_STEPS and time.perf_counter() - start < MEASURE_SECONDS:
            _, _, terminated, truncated, _ = five_values(environment.step(actions[steps % ACTIONS]))
            steps += 1
            if terminated or truncated:
                environment.reset(None, None)
        return {"step_us": round((time.perf_counter() - start) / steps * 1e6, 1), "steps": steps}
    except Exception as error:
        return {"step_us": None, "reason": f"{type(error).__name__}: {error!s:.200}"}


def measure_vector(owner: VectorRows) -> dict[str, Any]:
    """The same for a vectorised environment; the time is one row's share of a step."""
    if owner.action_space is None:
        return {"step_us": None, "reason": "no action space"}
    count = len(owner.all)
    try:
        actions = [batch(owner.action_space, [owner.action_space.sample() for _ in range(count)]) for _ in range(ACTIONS)]
        steps = 0
        start = time.perf_counter()
        while steps < MEASURE_STEPS and time.perf_counter() - start < MEASURE_SECONDS:
            owner.environment.step(actions[steps % ACTIONS])
            steps += 1
        return {"step_us": round((time.perf_counter() - start) / steps / count * 1e6, 1), "steps": steps}
    except Exception as error:
        return {"step_us": None, "reason": f"{type(error).__name__}: {error!s:.200}"}
