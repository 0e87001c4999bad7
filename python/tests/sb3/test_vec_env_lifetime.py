"""The order of calls, and the end."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from sb3_environments import Failing

from sandpool import InvalidTypeError, InvalidValueError, NotFoundError, PoolClosedError, PoolLostError, RLPool
from sandpool.sb3 import SB3VecEnv

N = 2

Open = Callable[..., SB3VecEnv]


@pytest.fixture
def vec_env(open_vec_env: Open) -> SB3VecEnv:
    return open_vec_env([Failing] * N)


def test_a_step_before_any_reset_is_refused_before_anything_is_sent(vec_env: SB3VecEnv) -> None:
    before = vec_env.pool.timing.summary()["batches"]
    for step in (vec_env.step, vec_env.step_async):
        with pytest.raises(ResetNeeded, match=r"Cannot call step\(\) before calling reset\(\): environments \[0, 1\] were never reset"):
            step(np.array([1, 2]))
    assert not vec_env.waiting
    assert vec_env.pool.timing.summary()["batches"] == before
    vec_env.pool.reset(seed=1)
    assert vec_env.step(np.array([1, 2]))[1].tolist() == [1, 2]


def test_a_step_may_go_on_in_the_background(vec_env: SB3VecEnv) -> None:
    vec_env.reset()
    for number in range(1, 4):
        vec_env.step_async(np.array([1, 2]))
        assert vec_env.waiting
        obs, rewards, _, _ = vec_env.step_wait()
        assert not vec_env.waiting
        assert obs[:, 1].tolist() == [number, number]
        assert rewards.tolist() == [1, 2]


def test_calls_out_of_order_are_refused_and_a_reset_drops_the_step_that_goes_on(vec_env: SB3VecEnv) -> None:
    vec_env.reset()
    with pytest.raises(InvalidValueError, match=r"step_wait\(\) was called without"):
        vec_env.step_wait()
    vec_env.step_async(np.array([1, 1]))
    with pytest.raises(InvalidValueError, match="while another one is going on"):
        vec_env.step_async(np.array([1, 1]))
    with pytest.raises(InvalidValueError, match="while another one is going on"):
        vec_env.step(np.array([1, 1]))
    assert vec_env.reset()[:, 1].tolist() == [0, 0]
    assert vec_env.step(np.array([1, 1]))[0][:, 1].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        ([1], InvalidValueError, "1 actions were given; expected 2"),
        (np.zeros((3,), int), InvalidValueError, "3 actions were given; expected 2"),
        (1, InvalidTypeError, "actions is of type int"),
        (np.zeros(2, np.float32), InvalidTypeError, "expected integers"),
    ],
)
def test_wrong_actions_are_refused_before_a_step_begins(vec_env: SB3VecEnv, actions: object, error: type[Exception], message: str) -> None:
    vec_env.reset()
    for begin in (vec_env.step, vec_env.step_async):
        with pytest.raises(error, match=message):
            begin(actions)
    assert not vec_env.waiting
    assert vec_env.step(np.array([1, 1]))[0][:, 1].tolist() == [1, 1]


def test_close_closes_the_pool_once_and_later_calls_say_so(vec_env: SB3VecEnv, server: dict[str, str]) -> None:
    vec_env.reset()
    pool_id = vec_env.pool.id
    vec_env.close()
    vec_env.close()
    assert vec_env.closed
    with pytest.raises((NotFoundError, PoolLostError)):
        RLPool.attach(pool_id)
    for call in (vec_env.reset, lambda: vec_env.step(np.array([1, 1])), lambda: vec_env.env_method("render")):
        with pytest.raises(PoolClosedError):
            call()


def test_close_ends_a_step_that_would_never_end(vec_env: SB3VecEnv) -> None:
    vec_env.reset()
    vec_env.step_async(np.array([1, 8]))
    vec_env.close()
    vec_env.close()
    assert not vec_env.waiting
    assert "sandpool-step" not in {thread.name for thread in threading.enumerate()}


def test_a_pool_that_was_attached_to_is_only_let_go_of(vec_env: SB3VecEnv) -> None:
    other = SB3VecEnv(pool=RLPool.attach(vec_env.pool.id))
    other.close()
    assert other.closed
    with RLPool.attach(vec_env.pool.id) as pool:
        assert pool.reset().shape == (N, 2)


def test_a_pool_is_given_alone(vec_env: SB3VecEnv) -> None:
    with pytest.raises(InvalidTypeError, match="pool= was given with n, seed"):
        SB3VecEnv(n=2, pool=vec_env.pool, seed=1)
    with pytest.raises(InvalidTypeError, match="expected both, or pool="):
        SB3VecEnv("somewhere")
    assert not vec_env.closed
