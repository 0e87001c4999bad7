"""Copies of live environments in a vector environment: what follows is what the source would have done, in every mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assert_same import assert_same

from conftest import BEFORE_1, MODES, Make
from sandpool import ForkUnsupportedError, InvalidValueError, RLPool, RowsFailedError
from sandpool.gymnasium import SandpoolVecEnv

N = 4
NEVER, EXITS, ENDS = 0, 2, 6


@pytest.fixture
def branched(make: Make) -> Any:
    """Makes environments in processes of their own, in one sandbox."""
    return lambda name, n=N, **options: make(name, n, **{"envs_per_process": 1, "shards": 1, **options})


def same_actions(envs: SandpoolVecEnv) -> Any:
    """Actions of all rows, those of row 0."""
    return {name: np.repeat(column[:1], envs.num_envs, 0) for name, column in envs.action_space.sample().items()}


def row_of(value: Any, row: int) -> Any:
    if isinstance(value, dict):
        return {name: row_of(part, row) for name, part in value.items()}
    return tuple(row_of(part, row) for part in value) if isinstance(value, tuple) else value[row]


def told_of(infos: dict[str, Any], row: int) -> dict[str, Any]:
    """The info of one row, of those keys that it has."""
    keys = [key for key in infos if not key.startswith("_") and infos[f"_{key}"][row]]
    return {key: told_of(infos[key], row) if isinstance(infos[key], dict) else infos[key][row] for key in keys}


def futures(envs: SandpoolVecEnv, actions: list[Any]) -> list[list[Any]]:
    """What each row does with the same actions, up to the end of an episode."""
    rows: list[list[Any]] = [[] for _ in range(envs.num_envs)]
    for chosen in actions:
        observations, rewards, terminations, truncations, infos = envs.step(chosen)
        for row, seen in enumerate(rows):
            seen.append((row_of(observations, row), rewards[row], terminations[row], truncations[row], told_of(infos, row)))
        if (terminations | truncations).any():
            break
    return rows


@pytest.mark.parametrize("mode", MODES)
def test_copies_and_restored_states_do_what_their_source_does(branched: Any, mode: str) -> None:
    envs = branched("Walk-v0", autoreset_mode=mode, seeds="continue")
    observations, infos = envs.reset(seed=2)
    envs.action_space.seed(1)
    (state,) = envs.save(where=[1])
    copied, told = envs.fork(0, [2, 3])
    assert_same(row_of(copied, 1), row_of(observations, 1))
    for row in (2, 3):
        assert_same(row_of(copied, row), row_of(observations, 0))
        assert_same(told_of(told, row), told_of(infos, 0))
    assert [told_of(told, row) for row in (0, 1)] == [{}, {}]
    assert envs.np_random_seed == (2, 3, 2, 2)
    actions = [same_actions(envs) for _ in range(12)]
    first = futures(envs, actions)
    assert_same(first[2], first[0])
    assert_same(first[3], first[0])
    envs.reset(seed=9)
    restored, _ = envs.restore(state, where=[0, 3])
    assert_same(row_of(restored, 3), row_of(observations, 1))
    again = futures(envs, actions)
    assert_same(again[3], again[0])
    length = min(len(again[0]), len(first[1]))
    assert_same(again[0][:length], first[1][:length])
    assert envs.states() == [state]
    assert envs.drop() == [state.id]


@pytest.mark.skipif(BEFORE_1, reason="0.29 has one mode")
def test_with_autoreset_disabled_an_end_goes_with_the_copies(branched: Any) -> None:
    envs = branched("Faulty-v0", autoreset_mode="Disabled")
    envs.reset(seed=0)
    terminations = envs.step([ENDS, NEVER, NEVER, NEVER])[2]
    assert terminations.tolist() == [True, False, False, False]
    ended, alive = envs.save(where=[0, 1])
    assert (ended.pending, alive.pending) == (True, False)
    # Row 0 and row 1 change places.
    envs.fork([0, 1], [1, 0])
    with pytest.raises(AssertionError, match=r"environments \[1\] ended"):
        envs.step([NEVER] * N)
    envs.restore(alive, where=[1])
    assert envs.step([NEVER] * N)[2].tolist() == [False] * N
    envs.restore(ended, where=[2, 3])
    with pytest.raises(AssertionError, match=r"environments \[2, 3\] ended"):
        envs.step([NEVER] * N)
    envs.reset(options={"reset_mask": np.array([False, False, True, True])})
    assert envs.step([NEVER] * N)[2].tolist() == [False] * N


@pytest.mark.skipif(BEFORE_1, reason="0.29 has one mode")
def test_in_next_step_mode_the_step_after_a_copied_end_resets_the_copy_too(branched: Any) -> None:
    envs = branched("Faulty-v0", autoreset_mode="NextStep")
    envs.reset(seed=0)
    envs.step([ENDS, NEVER, NEVER, NEVER])
    envs.fork(0, [1])
    observations, rewards, _, _, infos = envs.step([NEVER] * N)
    assert observations[:, 1].tolist() == [0, 0, 2, 2]
    assert rewards.tolist() == [0, 0, 1, 1]
    assert infos["_fresh"].tolist() == [True, True, False, False]


@pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")
@pytest.mark.parametrize("mode", MODES)
def test_a_failed_environment_is_no_source_and_healed_as_a_target(branched: Any, mode: str) -> None:
    envs = branched("Faulty-v0", autoreset_mode=mode, errors="raise", step_timeout=5)
    envs.reset(seed=0)
    (state,) = envs.save(where=[2])
    with pytest.raises(RowsFailedError, match="environment 1 failed"):
        envs.step([NEVER, EXITS, NEVER, NEVER])
    with pytest.raises(ForkUnsupportedError) as caught:
        envs.fork(1, 0)
    assert caught.value.sources == [(1, [{"failed": "crash"}])]
    observations, _ = envs.restore(state, where=[1])
    assert observations[:, 1].tolist() == [1, 0, 1, 1]
    assert envs.errors == {}
    observations, rewards, terminations, truncations, infos = envs.step([NEVER] * N)
    assert observations[:, 1].tolist() == [2, 1, 2, 2]
    assert (rewards.tolist(), terminations.any(), truncations.any()) == ([1] * N, False, False)
    assert "sandpool_error" not in infos


def test_reseeded_copies_differ_and_their_seeds_are_read_back(branched: Any) -> None:
    envs = branched("Walk-v0")
    envs.reset(seed=5)
    envs.action_space.seed(1)
    envs.fork(0, [1, 2, 3], reseed=[None, 40, 40])
    assert envs.pool.reseeded.keys() == {2, 3}
    assert "np_random" in envs.pool.reseeded[2]
    first, second, third, fourth = futures(envs, [same_actions(envs)])
    assert_same(second, first)
    assert_same(fourth, third)
    with pytest.raises(AssertionError):
        assert_same(third, first)


def test_copies_wait_for_what_is_pending_and_keep_the_space(branched: Any) -> None:
    envs = branched("Walk-v0")
    envs.reset(seed=5)
    envs.step_async(envs.action_space.sample())
    for call in (lambda: envs.fork(0, 1), envs.save, lambda: envs.restore([])):
        with pytest.raises(Exception, match="while waiting for a pending call to `step`"):
            call()
    envs.step_wait()
    observations, infos = envs.fork(0, [])
    assert (infos, observations in envs.observation_space) == ({}, True)
    with pytest.raises(InvalidValueError, match="dst"):
        envs.fork(0, [1, 1])
    envs.close()
    with pytest.raises(Exception, match="after a call to `close"):
        envs.save()


def test_a_pool_of_the_callers_shares_its_states(own_pool_server: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "env.py").write_text("import worlds\nfrom sandpool.env import serve\nserve(make=lambda config: worlds.Faulty())\n")
    (tmp_path / "worlds.py").write_bytes((Path(__file__).parent / "worlds.py").read_bytes())
    with RLPool(tmp_path, 2, shards=1, autoreset="same_step", **own_pool_server) as pool:
        envs = SandpoolVecEnv(pool=pool)
        envs.step([0, 0])
        (state,) = pool.save(where=[1])
        envs.step([0, 0])
        observations, _ = envs.restore(state)
        assert observations[:, 1].tolist() == [2, 1]
        assert envs.step([0, 0])[0][:, 1].tolist() == [3, 2]
