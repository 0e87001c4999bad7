"""`fork`, `save`, `restore`, `drop` and `states` of SB3VecEnv."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from sb3_environments import Drawing
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecNormalize

from sandpool import InvalidValueError, PoolClosedError, StateNotFoundError

N = 3
SPACES = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(4)


def test_copies_go_on_as_their_source_does(open_vec_env: Callable[..., Any]) -> None:
    env = open_vec_env([lambda: Monitor(Drawing(*SPACES))] * N, shards=1)
    env.seed(4)
    env.reset()
    env.step(np.array([0, 1, 2]))
    (state,) = env.save(where=[1])
    obs = env.fork(0, [1, 2])
    assert (obs.shape, obs.dtype) == ((N, 2), np.float32)
    assert np.array_equal(obs[1], obs[0])
    assert env.reset_infos[1] == env.reset_infos[2] == env.reset_infos[0]
    following = [env.step(np.array([1] * N)) for _ in range(30)]
    for observations, rewards, dones, infos in following:
        assert np.array_equal(observations, observations[[0, 0, 0]])
        assert rewards.tolist() == [rewards[0]] * N
        assert dones.tolist() == [dones[0]] * N
        # Monitor's sums are copied; its clock is not.
        assert [info.get("episode", {}).get("r") for info in infos] == [infos[0].get("episode", {}).get("r")] * N
    assert any(dones[0] for _, _, dones, _ in following)
    assert np.array_equal(env.restore(state, where=[0, 2])[0], env.restore(state)[1])
    assert env.states() == [state]
    assert env.drop(state) == [state.id]
    with pytest.raises(StateNotFoundError):
        env.restore(state)


def test_nothing_is_copied_in_the_middle_of_a_step_or_after_the_end(open_vec_env: Callable[..., Any]) -> None:
    env = open_vec_env([lambda: Drawing(*SPACES)] * N, shards=1)
    env.reset()
    env.step_async(np.array([0, 1, 2]))
    for call in (lambda: env.fork(0, 1), env.save):
        with pytest.raises(InvalidValueError, match="step_wait"):
            call()
    env.step_wait()
    assert VecNormalize(env).fork(0, 1).shape == (N, 2)
    env.close()
    for call in (lambda: env.fork(0, 1), env.save, lambda: env.restore([]), env.drop, env.states):
        with pytest.raises(PoolClosedError):
            call()
