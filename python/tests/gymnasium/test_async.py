"""Begun and awaited calls: out of order they are Gymnasium's errors, a late result is never lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest
from assert_same import assert_same
from gymnasium import logger
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError

from conftest import Make, sync
from sandpool.gymnasium import SandpoolVecEnv

SLOW = 4


@pytest.fixture
def envs(make: Make) -> SandpoolVecEnv:
    made = make("Faulty-v0", 2, envs_per_process=1)
    made.reset(seed=0)
    return made


def test_begun_calls_give_what_the_plain_ones_give(make: Make) -> None:
    ours, theirs = make("Walk-v0"), sync("Walk-v0")
    ours.reset_async(seed=1, options={"a": 2})
    assert_same(ours.reset_wait(timeout=30), theirs.reset(seed=1, options={"a": 2}))
    theirs.action_space.seed(0)
    actions = theirs.action_space.sample()
    ours.step_async(actions)
    assert_same(ours.step_wait(), theirs.step(actions))
    ours.call_async("double", 4, plus=1)
    assert ours.call_wait(timeout=30) == (9, 9, 9)
    theirs.close()


def test_a_wait_that_timed_out_loses_nothing(envs: SandpoolVecEnv) -> None:
    envs.step_async([SLOW, 0])
    with pytest.raises(multiprocessing.TimeoutError, match="wait again"):
        envs.step_wait(timeout=0.05)
    assert envs.step_wait()[0].tolist() == [[1, 1], [1, 1]]
    assert envs.step([0, 0])[0].tolist() == [[1, 2], [1, 2]]


def test_a_wait_that_ctrl_c_interrupts_loses_nothing(envs: SandpoolVecEnv) -> None:
    envs.step_async([SLOW, 0])
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        envs.step_wait()
    assert envs.step_wait()[0].tolist() == [[1, 1], [1, 1]]


def test_a_forked_process_does_not_wait_for_its_parents_call(envs: SandpoolVecEnv) -> None:
    envs.step_async([0, 0])
    child = os.fork()
    if child == 0:
        try:
            envs.step_wait()
        except NoAsyncCallError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert envs.step_wait()[0].tolist() == [[1, 1], [1, 1]]


def test_a_second_call_while_one_is_pending_is_refused_by_name(envs: SandpoolVecEnv) -> None:
    envs.step_async([SLOW, 0])
    for method, arguments in (
        ("step", ([0, 0],)),
        ("step_async", ([0, 0],)),
        ("reset", ()),
        ("reset_async", ()),
        ("call", ("render",)),
        ("call_async", ("render",)),
        ("get_attr", ("steps",)),
        ("set_attr", ("steps", 1)),
    ):
        with pytest.raises(AlreadyPendingCallError, match="pending call to `step`"):
            getattr(envs, method)(*arguments)
    for wait in ("reset_wait", "call_wait"):
        with pytest.raises(NoAsyncCallError, match=f"`{wait}` without any prior call"):
            getattr(envs, wait)()
    assert envs.step_wait()[0].tolist() == [[1, 1], [1, 1]]
    with pytest.raises(NoAsyncCallError):
        envs.step_wait()


def test_a_begun_call_that_fails_raises_in_its_wait_and_leaves_nothing_pending(envs: SandpoolVecEnv) -> None:
    envs.call_async("missing")
    with pytest.raises(AttributeError, match="missing"):
        envs.call_wait()
    with pytest.raises(ValueError, match="3 actions were given; expected 2"):
        envs.step_async([0, 0, 0])
    assert envs.step([0, 0])[0].tolist() == [[1, 1], [1, 1]]


def test_after_close_every_call_says_so_and_closing_again_is_nothing(envs: SandpoolVecEnv) -> None:
    envs.close()
    assert envs.closed
    assert envs.pool.closed
    envs.close()
    envs.close(terminate=True)
    for method, arguments in (
        ("step", ([0, 0],)),
        ("step_async", ([0, 0],)),
        ("step_wait", ()),
        ("reset", ()),
        ("reset_async", ()),
        ("reset_wait", ()),
        ("call", ("render",)),
        ("call_async", ("render",)),
        ("call_wait", ()),
        ("set_attr", ("steps", 1)),
        ("render", ()),
    ):
        with pytest.raises(ClosedEnvironmentError, match=r"after a call to `close\(\)`"):
            getattr(envs, method)(*arguments)


def test_close_during_a_pending_step_waits_for_it_and_says_so(envs: SandpoolVecEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(logger, "warn", warned.append)
    envs.step_async([SLOW, 0])
    envs.close()
    assert envs.pool.closed
    assert "pending call to `step`" in warned[0]


def test_close_with_terminate_does_not_wait_for_a_pending_step(make: Make) -> None:
    envs = make("Faulty-v0", 2, envs_per_process=1, step_timeout=300)
    envs.reset()
    envs.step_async([3, 0])
    time.sleep(0.1)
    with pytest.warns(UserWarning, match="pending call to `step`"):
        envs.close(terminate=True)
    assert envs.pool.closed


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_leaves_no_pool_open(make: Make) -> None:
    envs = make("Faulty-v0", 2, envs_per_process=1, step_timeout=300)
    envs.reset()
    envs.step_async([3, 0])
    with pytest.raises(UserWarning, match="pending call to `step`"):
        envs.close(terminate=True)
    assert envs.pool.closed


def test_the_end_of_a_with_block_closes(own_server: dict) -> None:
    with SandpoolVecEnv.from_gym("CartPole-v1", 1, **own_server) as envs:
        assert envs.reset(seed=0)[0].shape == (1, 4)
    assert envs.pool.closed


def test_a_collected_environment_closes_its_pool(make: Make, own_server: dict) -> None:
    keeper = make("CartPole-v1", 1)
    envs = SandpoolVecEnv.from_gym("CartPole-v1", 1, **own_server)
    pool = envs.pool
    del envs
    assert pool.closed
    assert np.isfinite(keeper.reset()[0]).all()
