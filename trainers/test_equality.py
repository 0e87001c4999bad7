"""Trajectories with fixed seeds: the same twice, packed or not, and those of SyncVectorEnv."""

from __future__ import annotations

import hashlib
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from sandpool.gymnasium import SandpoolVecEnv

STEPS = 400
ROWS = 6
ENVIRONMENTS = ["CartPole-v1", "Acrobot-v1", "MountainCarContinuous-v0", "FrozenLake-v1", "Blackjack-v1"]


def trajectory(envs: VectorEnv) -> str:
    """Hash everything that an agent sees, bit for bit, over STEPS steps with episodes that end."""
    digest = hashlib.sha256()
    actions = np.random.default_rng(5)
    try:
        observation, _ = envs.reset(seed=11)
        feed(digest, observation)
        for _ in range(STEPS):
            chosen = choose(envs, actions)
            observation, rewards, terminations, truncations, infos = envs.step(chosen)
            feed(digest, (observation, rewards, terminations, truncations))
            feed(digest, [last for last in infos.get("final_obs", []) if last is not None])
    finally:
        envs.close()
    return digest.hexdigest()


def choose(envs: VectorEnv, random: np.random.Generator) -> Any:
    """One random action a row."""
    space = envs.single_action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        return random.integers(0, space.n, envs.num_envs)
    return random.uniform(-1, 1, (envs.num_envs, *space.shape)).astype(space.dtype)


def feed(digest: Any, value: Any) -> None:
    """Add arrays with their dtype and shape."""
    if isinstance(value, (tuple, list)):
        for part in value:
            feed(digest, part)
        return
    array = np.asarray(value)
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    digest.update(array.tobytes())


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_seeded_run_is_the_same_twice_packed_or_not_and_as_in_the_trainers_process(name: str, mode: AutoresetMode) -> None:
    reference = trajectory(SyncVectorEnv([lambda: gymnasium.make(name)] * ROWS, autoreset_mode=mode))
    for rows_per_process in (1, 1, 3, ROWS):
        pooled = SandpoolVecEnv.from_gym(name, n=ROWS, autoreset_mode=mode, envs_per_process=rows_per_process, progress=False)
        assert trajectory(pooled) == reference, rows_per_process
