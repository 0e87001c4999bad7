"""Equal, value by value, to Stable-Baselines3's own classes with the same seeds and actions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from sb3_environments import Drawing, box_space, dict_space, tuple_space
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sandpool.sb3 import SB3VecEnv

N = 3
STEPS = 1000

Open = Callable[..., SB3VecEnv]


def assert_equal(ours: Any, theirs: Any) -> None:
    """Assert equal values, dtypes and containers; of `episode`, all but the time."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for key in theirs:
            if key != "t":
                assert_equal(ours[key], theirs[key])
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_equal(one, other)
    elif isinstance(theirs, np.ndarray):
        assert isinstance(ours, np.ndarray)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours == theirs


def assert_same_run(ours: Any, theirs: Any, steps: int) -> int:
    """Seed, reset and step both with the same random actions; return the number of episodes that ended."""
    for vec_env in (ours, theirs):
        vec_env.seed(7)
    assert_equal(ours.reset(), theirs.reset())
    assert_equal(ours.reset_infos, list(theirs.reset_infos))
    ours.action_space.seed(3)
    ended = 0
    for _ in range(steps):
        actions = np.array([ours.action_space.sample() for _ in range(N)])
        (obs, rewards, dones, infos), (their_obs, their_rewards, their_dones, their_infos) = ours.step(actions), theirs.step(actions)
        assert_equal(obs, their_obs)
        assert rewards.dtype == np.float64
        # DummyVecEnv keeps rewards as float32, SubprocVecEnv as they come.
        np.testing.assert_array_equal(rewards.astype(their_rewards.dtype), their_rewards)
        assert_equal(dones, their_dones)
        assert_equal(infos, list(their_infos))
        ended += int(dones.sum())
    assert_equal(ours.reset_infos, list(theirs.reset_infos))
    return ended


SPACES = {
    "dict": (dict_space(), spaces.Discrete(4)),
    "tuple": (tuple_space(), spaces.MultiDiscrete([3, 2])),
    "box action": (box_space(), box_space()),
    "binary action": (spaces.Discrete(9), spaces.MultiBinary(4)),
}


@pytest.mark.parametrize("name", SPACES)
def test_a_thousand_steps_equal_dummy_vec_envs_in_every_kind_of_space(open_vec_env: Open, name: str) -> None:
    fns = [partial(Drawing, *SPACES[name]) for _ in range(N)]
    assert assert_same_run(open_vec_env(fns), DummyVecEnv(fns), STEPS) > 100


def test_rows_that_share_a_process_equal_dummy_vec_envs_too(open_vec_env: Open) -> None:
    fns = [partial(Drawing, *SPACES["dict"]) for _ in range(N)]
    ours = open_vec_env(fns, envs_per_process=2)
    assert ours.pool.description["packing"]["processes"] == 2
    assert assert_same_run(ours, DummyVecEnv(fns), 200) > 20


def test_a_thousand_steps_of_cart_pole_equal_subproc_vec_envs_with_monitor(server: dict[str, str]) -> None:
    theirs = make_vec_env("CartPole-v1", N, vec_env_cls=SubprocVecEnv, vec_env_kwargs={"start_method": "fork"})
    with SB3VecEnv.from_gym("CartPole-v1", N, progress=False) as ours:
        assert assert_same_run(ours, theirs, STEPS) > 100
    theirs.close()


def test_make_vec_env_makes_ours_and_sends_its_monitor_without_sb3(server: dict[str, str]) -> None:
    ours = make_vec_env("Pendulum-v1", N, vec_env_cls=SB3VecEnv.from_fns, vec_env_kwargs={"progress": False})
    theirs = make_vec_env("Pendulum-v1", N)
    assert assert_same_run(ours, theirs, 401) == 2 * N
    assert ours.metadata["render_fps"] == theirs.metadata["render_fps"]
    ours.close()


def test_wrappers_go_around_the_monitor_as_make_vec_envs_do(server: dict[str, str]) -> None:
    wrapper = "gymnasium.wrappers:NormalizeReward"
    with SB3VecEnv.from_gym("Pendulum-v1", N, wrappers=[(wrapper, {"gamma": 0.5})], progress=False) as ours:
        kwargs = {"wrapper_class": gymnasium.wrappers.NormalizeReward, "wrapper_kwargs": {"gamma": 0.5}}
        assert assert_same_run(ours, make_vec_env("Pendulum-v1", N, **kwargs), 201) == N
        assert ours.env_is_wrapped(gymnasium.wrappers.NormalizeReward) == [True] * N


def test_seeds_and_options_hold_for_one_reset(open_vec_env: Open) -> None:
    fns = [partial(Drawing, box_space(), spaces.Discrete(2))] * N
    ours, theirs = open_vec_env(fns), DummyVecEnv(fns)
    for vec_env in (ours, theirs):
        assert list(vec_env.seed(11)) == [11, 12, 13]
        vec_env.set_options([{"level": 1}, {}, {"level": 3}])
        vec_env.reset()
        assert [info["seed"] for info in vec_env.reset_infos] == [11, 12, 13]
        assert vec_env.get_attr("options") == [{"level": 1}, None, {"level": 3}]
        vec_env.reset()
        assert [info["seed"] for info in vec_env.reset_infos] == [None] * N
        assert vec_env.get_attr("options") == [None] * N
        vec_env.set_options({"level": 5})
        vec_env.reset()
        assert vec_env.get_attr("options") == [{"level": 5}] * N
    assert_equal(ours.reset_infos, theirs.reset_infos)
    ours.seed(11)
    again = ours.reset()
    ours.seed(11)
    assert_equal(ours.reset(), again)


def test_without_a_seed_rows_differ(open_vec_env: Open) -> None:
    vec_env = open_vec_env([partial(Drawing, box_space(), spaces.Discrete(2))] * N)
    vec_env.reset()
    assert len({info["draw"] for info in vec_env.reset_infos}) == N
    vec_env.seed()
    vec_env.reset()
    assert len({info["draw"] for info in vec_env.reset_infos}) == N
