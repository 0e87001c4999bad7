"""Calls, attributes and frames of every environment, each one request."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import BEFORE_1, Make
from sandpool import RLPool, RowsFailedError
from sandpool.gymnasium import SandpoolVecEnv
from sandpool.sources.from_gym import open_gym_pool


def test_calls_attributes_and_frames_come_in_order_and_in_one_request(make: Make) -> None:
    envs = make("Walk-v0", render_mode="rgb_array")
    envs.reset(seed=0)
    before = envs.timing.summary()["batches"]
    assert envs.call("double", 3, plus=1) == (7, 7, 7)
    envs.set_attr("level", [4, 5, 6])
    assert envs.get_attr("level") == (4, 5, 6)
    envs.set_attr("level", 9)
    assert envs.call("level") == (9, 9, 9)
    frames = envs.render()
    assert envs.timing.summary()["batches"] == before + 6
    assert isinstance(frames, tuple)
    assert [(frame.shape, frame.dtype) for frame in frames] == [((4, 5, 3), np.uint8)] * 3


def test_wrong_calls_are_gymnasiums_errors(make: Make) -> None:
    envs = make("Walk-v0")
    for name in ("reset", "step", "close"):
        with pytest.raises(ValueError, match=f"use `{name}` directly"):
            envs.call(name)
    with pytest.raises(ValueError, match="Got `2` values for 3 environments"):
        envs.set_attr("level", [1, 2])
    with pytest.raises(AttributeError, match="nothing_like_it"):
        envs.get_attr("nothing_like_it")
    with pytest.raises(RowsFailedError, match="on purpose"):
        envs.call("fail")
    envs.reset(seed=0)


@pytest.mark.parametrize("name", ["CartPole-v1", "Walk-v0", "Pendulum-v1"])
def test_wrong_actions_are_refused_before_anything_is_sent(make: Make, name: str) -> None:
    envs = make(name)
    envs.reset(seed=0)
    before = envs.timing.summary()["batches"]
    one = envs.single_action_space.sample()
    with pytest.raises(TypeError):
        envs.step(3)
    for count in (2, 4):
        actions = {key: [one[key]] * count for key in one} if isinstance(one, dict) else [one] * count
        with pytest.raises(ValueError, match=f"{count} actions were given; expected 3"):
            envs.step(actions)
    assert envs.timing.summary()["batches"] == before


def test_a_pool_of_ones_own_is_taken_with_its_mode_and_left_open(own_server: dict) -> None:
    with open_gym_pool("CartPole-v1", n=2, autoreset="same_step", **own_server) as pool:
        with pytest.raises(ValueError, match="needs gymnasium 1.1" if BEFORE_1 else "with a pool whose mode is SameStep"):
            SandpoolVecEnv(pool=pool, autoreset_mode="NextStep")
        with pytest.raises(TypeError, match="n, step_timeout was given with pool="):
            SandpoolVecEnv(pool=pool, n=2, step_timeout=3)
        envs = SandpoolVecEnv(pool=pool)
        assert envs.reset(seed=0)[0].shape == (2, 4)
        envs.close()
        assert not pool.closed
    with pytest.raises(TypeError, match="expected an RLPool"):
        SandpoolVecEnv(pool=3)
    with pytest.raises(TypeError, match="expected both, or pool="):
        SandpoolVecEnv("somewhere")
    assert isinstance(pool, RLPool)
