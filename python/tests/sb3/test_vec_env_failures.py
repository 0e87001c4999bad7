"""Environments that raise, hang or die under a VecEnv."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sb3_environments import Failing
from stable_baselines3.common.vec_env import VecMonitor

from sandpool import RowsFailedError, SandpoolWarning
from sandpool.sb3 import SB3VecEnv

N = 3

Open = Callable[..., SB3VecEnv]


def step(vec_env: Any, *actions: int) -> Any:
    return vec_env.step(np.array(actions))


@pytest.mark.parametrize(("action", "kind"), [(7, "exception"), (8, "timeout"), (9, "crash")])
def test_a_failed_environment_is_done_and_replaced_with_one_warning_a_kind(open_vec_env: Open, action: int, kind: str) -> None:
    vec_env = open_vec_env([Failing] * N, step_timeout=1)
    before = vec_env.reset()
    step(vec_env, 1, 1, 1)
    with pytest.warns(SandpoolWarning, match=f"environment 1 failed in step with {kind}") as warned:
        obs, rewards, dones, infos = step(vec_env, 1, action, 6)
    assert [warning.filename for warning in warned] == [__file__]
    assert (rewards.tolist(), dones.tolist()) == ([1, 0, 6], [False, True, True])
    assert infos[1]["terminal_observation"].tolist() == [before[1, 0], 1]
    assert infos[1]["TimeLimit.truncated"] is False
    assert infos[1]["sandpool_error"]["kind"] == kind
    assert infos[2]["TimeLimit.truncated"] is True
    # A new process, whose first reset is seeded.
    assert obs[1, 0] != before[1, 0]
    assert obs[:, 1].tolist() == [2, 0, 0]
    assert [info["seeded"] for info in vec_env.reset_infos] == [True, True, False]
    # The same kind again is told only in the infos.
    _, _, dones, infos = step(vec_env, action, 1, 1)
    assert dones.tolist() == [True, False, False]
    assert infos[0]["sandpool_error"]["kind"] == kind


def test_all_may_fail_at_once_and_a_wrapper_above_counts_on(open_vec_env: Open) -> None:
    vec_env = VecMonitor(open_vec_env([Failing] * N, step_timeout=1))
    vec_env.reset()
    step(vec_env, 1, 2, 3)
    with pytest.warns(SandpoolWarning):
        _, _, dones, infos = step(vec_env, 9, 7, 8)
    assert dones.tolist() == [True] * N
    assert [info["episode"]["r"] for info in infos] == [1, 2, 3]
    assert [info["episode"]["l"] for info in infos] == [2, 2, 2]
    assert step(vec_env, 1, 1, 1)[0][:, 1].tolist() == [1, 1, 1]


def test_errors_raise_raises_and_a_reset_goes_on(open_vec_env: Open) -> None:
    vec_env = open_vec_env([Failing] * N, errors="raise")
    vec_env.reset()
    with pytest.raises(RowsFailedError, match="environment 2 failed in step with exception") as caught:
        step(vec_env, 1, 1, 7)
    assert list(caught.value.errors) == [2]
    assert vec_env.reset()[:, 1].tolist() == [0] * N
    assert step(vec_env, 1, 1, 1)[1].tolist() == [1, 1, 1]
