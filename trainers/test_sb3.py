"""Stable-Baselines3's PPO learns the same through a pool as through its own processes."""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

from sandpool.sb3 import SB3VecEnv

ROWS = 4
STEPS = 20_000


class Episodes(BaseCallback):
    """Keeps the return and length of each episode that ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[tuple[float, int]] = []

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        self.ended += [(info["episode"]["r"], info["episode"]["l"]) for info in infos if "episode" in info]
        return True


def monitored() -> gymnasium.Env:
    """CartPole as SB3's make_vec_env makes it."""
    return Monitor(gymnasium.make("CartPole-v1"))


def learn(envs: VecEnv) -> tuple[list[tuple[float, int]], np.ndarray]:
    """Train with one seed; return the episodes and the policy's weights."""
    torch.set_num_threads(1)
    episodes = Episodes()
    try:
        model = PPO("MlpPolicy", envs, seed=3, n_steps=256, device="cpu", verbose=0)
        model.learn(STEPS, callback=episodes)
        weights = torch.cat([weight.flatten() for weight in model.policy.parameters()])
    finally:
        envs.close()
    return episodes.ended, weights.detach().numpy()


def test_ppo_sees_the_same_episodes_and_learns_the_same_policy() -> None:
    episodes, weights = learn(SubprocVecEnv([monitored] * ROWS))
    pooled_episodes, pooled_weights = learn(SB3VecEnv.from_gym("CartPole-v1", n=ROWS, monitor=True, progress=False))
    assert len(episodes) > 100
    assert pooled_episodes == episodes
    assert np.array_equal(pooled_weights, weights)
