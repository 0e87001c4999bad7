"""A walk along the integers to a target that the seed chooses. Two plain functions, no dependency.

pool = sandpool.RLPool("examples/counter", n=4, seed=1)
observations, rewards, dones, infos = pool.step([1, 1, -1, 1])
"""

import random

from sandpool.env import serve

STEPS_MAX = 100

position = target = steps = 0


def reset(seed, options=None):
    """Start at 0; the target is 5 to 20 away, or `options["target"]`."""
    global position, target, steps
    position = steps = 0
    target = random.Random(seed).randint(5, 20)
    if options:
        target = options["target"]
    return [position, target], {"distance": target - position}


def step(action):
    """Move by -1, 0 or 1. The reward is 1 at the target, which ends the episode, and -0.01 elsewhere."""
    global position, steps
    if action not in (-1, 0, 1):
        raise ValueError(f"the action is {action!r}; expected -1, 0 or 1")
    position += action
    steps += 1
    reached = position == target
    reward = 1.0 if reached else -0.01
    truncated = steps >= STEPS_MAX and not reached
    return [position, target], reward, reached, truncated, {"distance": target - position}


serve(reset=reset, step=step)
