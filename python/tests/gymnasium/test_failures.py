"""Failed rows: truncated, with their error, never without an observation, and alive again when the mode says so."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from assert_same import assert_same

from conftest import BEFORE_1, MODES, Make
from sandpool import RowsFailedError, SandpoolWarning
from sandpool.gymnasium import SandpoolVecEnv

if BEFORE_1:
    from gymnasium.wrappers import RecordEpisodeStatistics
else:
    from gymnasium.wrappers.vector import RecordEpisodeStatistics

FINAL = "final_observation" if BEFORE_1 else "final_obs"
RAISES, EXITS, SLEEPS = 1, 2, 3
FAULTS = {RAISES: "exception", EXITS: "crash", SLEEPS: "timeout"}
LAYOUTS = [1, 4]

pytestmark = pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")


def faulty(make: Make, mode: str, n: int = 3, **options: Any) -> SandpoolVecEnv:
    return make(
        "Faulty-v0",
        n,
        autoreset_mode=mode,
        **{"first_reset": True, "step_timeout": 0.5, "reset_timeout": 5, "envs_per_process": 1, **options},
    )


def final_info(infos: dict, row: int) -> dict:
    if BEFORE_1:
        return infos["final_info"][row]
    return {name: value[row] for name, value in infos["final_info"].items() if not name.startswith("_")}


@pytest.mark.parametrize("fault", FAULTS)
def test_in_same_step_mode_a_failed_row_goes_on_with_its_replacements_reset(make: Make, fault: int) -> None:
    envs = faulty(make, "SameStep")
    envs.reset(seed=0)
    envs.step([0, 0, 0])
    observations, rewards, terminations, truncations, infos = envs.step([0, fault, 0])
    # The object is the template's copy, so its first episode after creation is number 1.
    assert_same(observations, np.array([[2, 2], [1, 0], [2, 2]], np.float32))
    assert rewards.tolist() == [1, 0, 1]
    assert terminations.tolist() == [False, False, False]
    assert truncations.tolist() == [False, True, False]
    assert infos["sandpool_error"][1]["kind"] == FAULTS[fault]
    assert infos["_sandpool_error"].tolist() == [False, True, False]
    assert ("sandpool_straggler" in infos) == (fault == SLEEPS)
    assert_same(infos[FINAL][1], np.array([2, 1], np.float32))
    assert final_info(infos, 1)["sandpool_error"]["kind"] == FAULTS[fault]
    assert infos["fresh"].tolist() == [0, 1, 0]
    assert envs.errors.keys() == {1}
    observations, _, _, truncations, infos = envs.step([0, 0, 0])
    assert_same(observations, np.array([[2, 3], [1, 1], [2, 3]], np.float32))
    assert not truncations.any()
    assert infos == {}
    assert envs.errors == {}


@pytest.mark.parametrize("fault", [EXITS, SLEEPS])
@pytest.mark.parametrize("errors", ["rows", "raise"])
def test_a_reset_that_fails_after_the_end_of_an_episode_leaves_that_end_as_it_was(make: Make, fault: int, errors: str) -> None:
    envs = faulty(make, "SameStep", reset_timeout=1, errors=errors)
    envs.reset(seed=0)
    envs.step([0, 0, 0])
    actions = [0, 8 + fault, 0]
    if errors == "raise":
        with pytest.raises(RowsFailedError, match=f"environment 1 failed in reset with {FAULTS[fault]}") as caught:
            envs.step(actions)
        observations, rewards, terminations, truncations, infos = caught.value.result
        assert_same(observations[1], np.array([2, 1], np.float32))
    else:
        observations, rewards, terminations, truncations, infos = envs.step(actions)
        assert_same(observations[1], np.array([1, 0], np.float32))
    assert rewards.tolist() == [1, 2.5, 1]
    assert terminations.tolist() == [False, fault == EXITS, False]
    assert truncations.tolist() == [False, fault == SLEEPS, False]
    assert infos["sandpool_error"][1]["kind"] == FAULTS[fault]
    assert_same(infos[FINAL][1], np.array([2, 2], np.float32))
    assert final_info(infos, 1)["last"] == 2
    if errors == "raise":
        envs.reset(seed=0)
    _, _, terminations, truncations, _ = envs.step([0, 0, 0])
    assert not (terminations | truncations).any()


@pytest.mark.skipif(BEFORE_1, reason="0.29 has no other mode")
@pytest.mark.parametrize("fault", FAULTS)
def test_in_next_step_mode_the_next_step_brings_the_replacements_reset(make: Make, fault: int) -> None:
    envs = faulty(make, "NextStep")
    envs.reset(seed=0)
    envs.step([0, 0, 0])
    observations, rewards, terminations, truncations, infos = envs.step([0, fault, 6])
    assert_same(observations, np.array([[2, 2], [2, 1], [2, 2]], np.float32))
    assert (rewards.tolist(), terminations.tolist(), truncations.tolist()) == ([1, 0, 1], [False, False, True], [False, True, False])
    assert infos["sandpool_error"][1]["kind"] == FAULTS[fault]
    assert FINAL not in infos
    observations, rewards, terminations, truncations, infos = envs.step([0, 0, 0])
    assert_same(observations, np.array([[2, 3], [1, 0], [3, 0]], np.float32))
    assert (rewards.tolist(), (terminations | truncations).any()) == ([1, 0, 0], False)
    assert infos["fresh"].tolist() == [0, 1, 3]


@pytest.mark.skipif(BEFORE_1, reason="0.29 has no other mode")
@pytest.mark.parametrize("fault", FAULTS)
def test_in_disabled_mode_the_next_reset_brings_the_replacements(make: Make, fault: int) -> None:
    envs = faulty(make, "Disabled")
    envs.reset(seed=0)
    observations, _, terminations, truncations, infos = envs.step([0, fault, 7])
    assert_same(observations, np.array([[2, 1], [2, 0], [2, 1]], np.float32))
    assert (terminations.tolist(), truncations.tolist()) == ([False] * 3, [False, True, True])
    assert infos["sandpool_error"][1]["kind"] == FAULTS[fault]
    with pytest.raises(AssertionError, match=r"environments \[1, 2\] ended"):
        envs.step([0, 0, 0])
    observations, infos = envs.reset(options={"reset_mask": truncations})
    assert_same(observations, np.array([[2, 1], [1, 0], [3, 0]], np.float32))
    assert infos["fresh"].tolist() == [0, 1, 3]
    assert envs.step([0, 0, 0])[0][:, 1].tolist() == [2, 1, 1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", [RAISES, EXITS])
def test_a_reset_that_fails_shows_the_last_good_observation_and_the_error(make: Make, mode: str, fault: int) -> None:
    envs = faulty(make, mode)
    envs.reset(seed=0)
    kept = envs.step([0, 0, 0])[0]
    observations, infos = envs.reset(options={"fault": fault})
    assert_same(observations, kept)
    assert [error["op"] for error in infos["sandpool_error"]] == ["reset"] * 3
    assert {error["kind"] for error in infos["sandpool_error"]} == {FAULTS[fault]}
    observations, infos = envs.reset()
    assert observations.tolist() == [[1, 0]] * 3
    assert not envs.step([0, 0, 0])[3].any()


def test_a_step_after_a_failed_reset_ends_that_episode_and_begins_one(make: Make) -> None:
    envs = faulty(make, "SameStep", 2)
    envs.reset(seed=0)
    shown, _ = envs.reset(options={"fault": EXITS, "reset_mask": np.array([True, False])})
    for _ in range(100):
        observations, _, _, truncations, infos = envs.step([0, 0])
        assert truncations[0]
        assert infos["sandpool_error"][0]["repeated"]
        assert_same(infos[FINAL][0], shown[0])
        if observations[0].tolist() == [1, 0]:
            break
    assert observations[0].tolist() == [1, 0]
    assert not envs.step([0, 0])[3].any()


@pytest.mark.parametrize("mode", MODES)
def test_a_row_that_was_reset_through_the_pool_is_not_told_of_again(make: Make, mode: str) -> None:
    envs = faulty(make, mode, 3)
    envs.reset(seed=0)
    mask = np.array([True, True, False])
    envs.reset(options={"fault": EXITS, "reset_mask": mask})
    if mode == "Disabled":
        envs.step([0, 0, 7])
    envs.pool.reset(where=[0], hard=True)
    envs.pool.reset(where=[2])
    envs.pool.fork(0, 1)
    observations, _, terminations, truncations, infos = envs.step([0, 0, 0])
    assert not (terminations | truncations).any()
    assert "sandpool_error" not in infos
    assert observations[:, 1].tolist() == [1, 1, 1]


def step_by_wait(envs: SandpoolVecEnv, actions: list[int]) -> Any:
    envs.step_async(actions)
    return envs.step_wait()  # here


def step_wrapped(envs: SandpoolVecEnv, actions: list[int]) -> Any:
    wrapped = RecordEpisodeStatistics(envs)
    wrapped.reset(seed=0)
    return wrapped.step(actions)  # here


def step_plainly(envs: SandpoolVecEnv, actions: list[int]) -> Any:
    return envs.step(actions)  # here


def reset_wrongly(envs: SandpoolVecEnv, _: list[int]) -> Any:
    return envs.reset(options={"fault": RAISES})  # here


@pytest.mark.parametrize("act", [step_plainly, step_by_wait, step_wrapped, reset_wrongly])
def test_a_warning_points_at_the_line_that_called(make: Make, act: Callable[[SandpoolVecEnv, list[int]], Any]) -> None:
    envs = faulty(make, "SameStep")
    envs.reset(seed=0)
    with pytest.warns(SandpoolWarning, match="environment . failed in") as caught:
        act(envs, [0, RAISES, 0])
    (warning,) = caught
    assert linecache.getline(warning.filename, warning.lineno).strip().endswith("# here")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
def test_every_row_may_fail_at_once(make: Make, mode: str, layout: int) -> None:
    envs = faulty(make, mode, 4, envs_per_process=layout)
    envs.reset(seed=0)
    observations, _, _, truncations, infos = envs.step([EXITS, RAISES, EXITS, EXITS])
    assert truncations.all()
    assert np.isfinite(observations).all()
    assert infos["_sandpool_error"].all()
    envs.reset(seed=1)
    assert envs.step([0, 0, 0, 0])[0].tolist() == [[envs.step([0] * 4)[0][0, 0], 1]] * 4


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("mode", MODES)
def test_frames_and_calls_go_on_while_a_row_is_failed(make: Make, mode: str, fault: int) -> None:
    envs = faulty(make, mode, 2)
    envs.reset(seed=0)
    white = envs.render()
    envs.step([fault, 0])
    frames = envs.render()
    replaced = mode == "SameStep"
    assert_same(frames, (white[0] if replaced else np.zeros_like(white[0]), white[1]))
    assert envs.call("double", 2) == (4 if replaced else None, 4)


def test_a_packed_row_that_raises_fails_alone(make: Make) -> None:
    envs = faulty(make, "SameStep", 3, envs_per_process=3)
    envs.reset(seed=0)
    observations, _, _, truncations, infos = envs.step([0, RAISES, 0])
    assert truncations.tolist() == [False, True, False]
    assert infos["sandpool_error"][1]["kind"] == "exception"
    assert observations.tolist() == [[2, 1], [1, 0], [2, 1]]


def test_a_failure_is_warned_of_once_for_each_kind(make: Make) -> None:
    envs = faulty(make, "SameStep")
    envs.reset(seed=0)
    with pytest.warns(SandpoolWarning, match="environment 1 failed in step with exception"):
        envs.step([0, RAISES, 0])
    envs.step([0, RAISES, RAISES])


def test_errors_raise_brings_the_result_and_leaves_the_pool_usable(make: Make) -> None:
    envs = faulty(make, "SameStep", errors="raise")
    envs.reset(seed=0)
    with pytest.raises(RowsFailedError, match="environment 1 failed in step with crash") as caught:
        envs.step([0, EXITS, 0])
    observations, rewards, _, truncations, infos = caught.value.result
    assert observations.tolist() == [[2, 1], [2, 0], [2, 1]]
    assert (rewards.tolist(), truncations.tolist()) == ([1, 0, 1], [False, True, False])
    assert infos["sandpool_error"][1]["exit_code"] == 3
    envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert envs.step([0, 0, 0])[0].tolist() == [[2, 2], [1, 1], [2, 2]]
    with pytest.raises(RowsFailedError, match="failed in reset with exception"):
        envs.reset(options={"fault": RAISES})


def test_an_environment_that_fails_in_its_first_reset_raises(make: Make) -> None:
    envs = faulty(make, "SameStep", first_reset=False)
    with pytest.raises(RowsFailedError, match=r"environment 0 failed in reset with exception \(and 2 more"):
        envs.reset(options={"fault": RAISES})
    assert envs.reset()[0].tolist() == [[1, 0]] * 3


def test_a_row_without_a_good_observation_shows_zeros(make: Make) -> None:
    # A pool of the caller's, who minds its resets.
    envs = SandpoolVecEnv(pool=faulty(make, "SameStep", 2, first_reset=False).pool)
    observations, _, _, truncations, infos = envs.step([0, 0])
    assert observations.tolist() == [[1, 0], [1, 0]]
    assert truncations.all()
    assert [final.tolist() for final in infos[FINAL]] == [[0, 0], [0, 0]]
    assert "reset" in infos["sandpool_error"][0]["message"]
