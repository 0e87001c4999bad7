"""RLlib's new stack makes its environments with `gymnasium.make_vec`, and so a pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest
import ray
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from ray.rllib.algorithms.ppo import PPOConfig

from sandpool.gymnasium import SandpoolVecEnv

ROWS = 4


@pytest.fixture(autouse=True)
def cluster() -> Iterator[None]:
    """Ray in this process only."""
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


def pooled(num_envs: int, **kwargs: Any) -> SandpoolVecEnv:
    """RLlib takes the observation after the end of an episode for the next one's first: next-step."""
    return SandpoolVecEnv.from_gym("CartPole-v1", n=num_envs, autoreset_mode=AutoresetMode.NEXT_STEP, progress=False)


def reference(num_envs: int, **kwargs: Any) -> SyncVectorEnv:
    """Make the same in the trainer's process."""
    return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)


def returns(name: str, entry_point: Any) -> list[tuple[float, float]]:
    """Mean return and length of the episodes of three iterations of PPO with one seed."""
    gymnasium.register(name, entry_point="gymnasium.envs.classic_control:CartPoleEnv", vector_entry_point=entry_point)
    config = (
        PPOConfig()
        .environment(name)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=ROWS, gym_env_vectorize_mode="vector_entry_point")
        .training(train_batch_size=1000, minibatch_size=250, num_epochs=2)
        .debugging(seed=6)
    )
    algorithm = config.build_algo()
    try:
        results = [algorithm.train()["env_runners"] for _ in range(3)]
    finally:
        algorithm.stop()
    return [(result["episode_return_mean"], result["episode_len_mean"]) for result in results]


def test_three_iterations_of_ppo_see_the_rewards_of_sync_vector_env() -> None:
    expected = returns("Reference/CartPole-v0", reference)
    assert returns("Pooled/CartPole-v0", pooled) == expected
    assert expected[0][0] > 10
