"""Stable-Baselines3's own wrappers and algorithms on top, against the same on top of its own classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_environments import Drawing, box_space
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor, VecNormalize, VecTransposeImage
from test_vec_env_equality import assert_equal, assert_same_run

from sandpool.sb3 import SB3VecEnv

N = 3

Open = Callable[..., SB3VecEnv]

IMAGE = spaces.Box(0, 255, (36, 40, 3), np.uint8)


@pytest.mark.parametrize(
    ("wrap", "space"),
    [
        (VecMonitor, box_space()),
        (partial(VecFrameStack, n_stack=3), box_space()),
        (partial(VecFrameStack, n_stack=2), IMAGE),
        (VecTransposeImage, IMAGE),
        (partial(VecFrameStack, n_stack=2), spaces.Dict({"image": IMAGE, "vector": box_space()})),
        (VecTransposeImage, spaces.Dict({"image": IMAGE, "choice": spaces.Discrete(5)})),
    ],
)
def test_wrappers_give_the_same_on_top_of_both(open_vec_env: Open, wrap: Any, space: spaces.Space[Any]) -> None:
    fns = [partial(Drawing, space, spaces.Discrete(2))] * N
    assert assert_same_run(wrap(open_vec_env(fns)), wrap(DummyVecEnv(fns)), 60) > 5


def test_normalised_observations_and_rewards_are_the_same(open_vec_env: Open) -> None:
    fns = [partial(Drawing, box_space(), spaces.Discrete(2))] * N
    ours, theirs = VecNormalize(open_vec_env(fns)), VecNormalize(DummyVecEnv(fns))
    for vec_env in (ours, theirs):
        vec_env.seed(4)
    assert_equal(ours.reset(), theirs.reset())
    for _ in range(100):
        (obs, rewards, _, infos), (their_obs, their_rewards, _, their_infos) = ours.step(np.ones(N, int)), theirs.step(np.ones(N, int))
        np.testing.assert_allclose(obs, their_obs, rtol=1e-6)
        np.testing.assert_allclose(rewards, their_rewards, rtol=1e-5)
        for info, their_info in zip(infos, their_infos, strict=True):
            assert info.keys() == their_info.keys()


def test_vec_monitor_says_that_a_monitored_environment_has_its_own(server: dict[str, str]) -> None:
    with SB3VecEnv.from_gym("CartPole-v1", 2, progress=False) as vec_env, pytest.warns(UserWarning, match="already wrapped"):
        VecMonitor(vec_env)


def train(vec_env: Any, steps: int) -> tuple[list[tuple[float, int]], np.ndarray[Any, Any]]:
    """Train PPO and return its last episodes' returns and lengths, and the sum of all weights."""
    torch.set_num_threads(1)
    model = PPO("MlpPolicy", vec_env, seed=1, n_steps=64, batch_size=64, n_epochs=2, device="cpu")
    model.learn(steps)
    assert model.ep_info_buffer is not None
    weights = np.array([float(parameter.detach().sum()) for parameter in model.policy.parameters()])
    vec_env.close()
    return [(episode["r"], episode["l"]) for episode in model.ep_info_buffer], weights


def test_ppo_learns_the_same_weights_on_both(server: dict[str, str]) -> None:
    ours, our_weights = train(SB3VecEnv.from_gym("CartPole-v1", 4, progress=False), 2_048)
    theirs, their_weights = train(make_vec_env("CartPole-v1", 4), 2_048)
    assert len(ours) > 20
    assert ours == theirs
    np.testing.assert_array_equal(our_weights, their_weights)


def test_dqn_trains_and_is_evaluated_without_a_warning(server: dict[str, str]) -> None:
    torch.set_num_threads(1)
    with SB3VecEnv.from_gym("CartPole-v1", 2, progress=False) as vec_env:
        model = DQN("MlpPolicy", vec_env, seed=1, learning_starts=50, buffer_size=500, device="cpu").learn(200)
        returns, lengths = evaluate_policy(model, vec_env, n_eval_episodes=3, return_episode_rewards=True)
    assert len(returns) == 3
    assert returns == lengths  # CartPole's reward is 1 a step
