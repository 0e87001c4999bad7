"""A step needs a reset before it, as OrderEnforcing demands in SyncVectorEnv."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from conftest import BEFORE_1, MODES, Make, sync
from sandpool import InvalidTypeError, SandpoolWarning
from sandpool.gymnasium import SandpoolVecEnv


@pytest.mark.parametrize("mode", MODES)
def test_a_step_before_any_reset_is_refused_as_by_sync_vector_env(make: Make, mode: str) -> None:
    ours, theirs = make("CartPole-v1", 2, autoreset_mode=mode), sync("CartPole-v1", 2, mode)
    for envs in (ours, theirs):
        with pytest.raises(ResetNeeded, match=r"Cannot call env\.step\(\) before calling env\.reset\(\)"):
            envs.step([0, 1])
    with pytest.raises(ResetNeeded, match=r"environments \[0, 1\] were never reset"):
        ours.step_async([0, 1])
    # Nothing was sent, and nothing is pending.
    assert ours.timing.summary()["batches"] == 0
    np.testing.assert_array_equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    np.testing.assert_array_equal(ours.step([0, 1])[0], theirs.step([0, 1])[0])
    theirs.close()


def test_a_reset_of_some_environments_is_none_of_the_others(make: Make) -> None:
    envs = make("CartPole-v1", 3)
    envs.reset(options={"reset_mask": np.array([True, False, True])})
    with pytest.raises(ResetNeeded, match=r"environments \[1\] were never reset"):
        envs.step([0, 0, 0])
    envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert envs.step([0, 0, 0])[1].tolist() == [1, 1, 1]


def test_a_reset_at_creation_or_through_the_pool_will_do(make: Make) -> None:
    for first_reset in (True, False):
        envs = make("CartPole-v1", 2, first_reset=first_reset)
        if not first_reset:
            envs.pool.reset(seed=1)
        assert envs.step([0, 1])[1].tolist() == [1, 1]


def test_a_caller_who_brings_a_pool_minds_its_resets(make: Make) -> None:
    pool = make("CartPole-v1", 2).pool
    envs = SandpoolVecEnv(pool=pool)
    with pytest.warns(SandpoolWarning, match="environment . failed in step"):
        assert envs.step([0, 1])[3].tolist() == [True, True]


@pytest.mark.parametrize("actions", [["a", "b"], np.array(["1", "0"]), [0, "b"]])
def test_text_for_numbers_is_refused_before_anything_is_sent(make: Make, actions: Any) -> None:
    envs = make("CartPole-v1", 2)
    envs.reset(seed=0)
    with pytest.raises(InvalidTypeError, match=r"The action of row 0 is '.'; expected integers for the action space Discrete"):
        envs.step(actions)
    assert envs.timing.summary()["batches"] == 1
    assert BEFORE_1 or envs.step([0, 1])[1].tolist() == [1, 1]
