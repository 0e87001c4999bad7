"""The same seeds and actions give what SyncVectorEnv gives: every type, dtype, mask and value."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from assert_same import assert_same

from conftest import BEFORE_1, MODES, Make, sync

STEPS = 300


def run_both(ours: Any, theirs: Any, mode: str, steps: int = STEPS) -> int:
    """Step both with the same actions; in disabled mode reset what ended. Returns the number of ended episodes."""
    assert_same(ours.reset(seed=7, options={"a": 1}), theirs.reset(seed=7, options={"a": 1}), "reset")
    theirs.action_space.seed(3)
    ended = 0
    for step in range(steps):
        actions = theirs.action_space.sample()
        expected = theirs.step(actions)
        assert_same(ours.step(actions), expected, f"step {step}")
        done = expected[2] | expected[3]
        ended += int(done.sum())
        if mode == "Disabled" and done.any():
            options = {"reset_mask": done}
            assert_same(ours.reset(options=options), theirs.reset(options=dict(options)), f"reset after step {step}")
            assert options.keys() == {"reset_mask"}
    return ended


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["CartPole-v1", "Walk-v0", "Picture-v0"])
def test_trajectories_are_those_of_sync_vector_env(make: Make, name: str, mode: str) -> None:
    theirs = sync(name, mode=mode)
    assert run_both(make(name, autoreset_mode=mode), theirs, mode) >= 9
    theirs.close()


@pytest.mark.parametrize("mode", MODES)
def test_trajectories_with_a_process_each_are_the_same(make: Make, mode: str) -> None:
    ours, theirs = make("Walk-v0", 4, autoreset_mode=mode, envs_per_process=1), sync("Walk-v0", 4, mode)
    assert ours.pool.description["packing"]["processes"] == 4
    assert run_both(ours, theirs, mode, 100) >= 9
    theirs.close()


def test_spaces_and_descriptions_are_those_of_sync_vector_env(make: Make) -> None:
    ours, theirs = make("Walk-v0", render_mode="rgb_array"), sync("Walk-v0", render_mode="rgb_array")
    for name in ("observation_space", "action_space", "single_observation_space", "single_action_space", "num_envs"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.render_mode == "rgb_array"
    assert ours.metadata == {**theirs.metadata, "autoreset_mode": ours.autoreset_mode}
    assert ours.autoreset_mode.name == "SAME_STEP"
    assert ours.unwrapped is ours
    assert isinstance(ours, gymnasium.vector.VectorEnv)
    ours.metadata["render_fps"] = 0
    assert ours.pool.description["metadata"]["render_fps"] == 7
    theirs.close()


def test_a_mode_that_0_29_lacks_names_the_version_needed(make: Make) -> None:
    if BEFORE_1:
        with pytest.raises(ValueError, match=r"NextStep needs gymnasium 1\.1 or newer; 0\.29"):
            make("CartPole-v1", autoreset_mode="next_step")
    with pytest.raises(ValueError, match="expected one of 'NextStep', 'SameStep', 'Disabled'"):
        make("CartPole-v1", autoreset_mode="sometimes")
    with pytest.raises(TypeError, match="expected autoreset_mode"):
        make("CartPole-v1", autoreset="next_step")


def test_a_reused_buffer_does_not_change_the_final_observation(make: Make) -> None:
    envs = make("Picture-v0", 2, reuse=True)
    envs.reset(seed=0)
    name = "final_observation" if BEFORE_1 else "final_obs"
    for _ in range(7):
        observations, _, terminations, truncations, infos = envs.step([2, 2])
    assert (terminations | truncations).all()
    assert [final[0, 0, 0] for final in infos[name]] == [21, 21]
    assert observations[:, 0, 0, 0].tolist() == [0, 0]


def test_returned_arrays_never_change_later(make: Make) -> None:
    envs = make("Walk-v0", 2)
    theirs = sync("Walk-v0", 2)
    theirs.action_space.seed(0)
    kept, copies = [envs.reset(seed=1)], [theirs.reset(seed=1)]
    for _ in range(40):
        actions = theirs.action_space.sample()
        kept.append(envs.step(actions))
        copies.append(theirs.step(actions))
    envs.reset(seed=2)
    for place, (one, other) in enumerate(zip(kept, copies, strict=True)):
        assert_same(one, other, f"result {place}")
    theirs.close()


def test_without_copies_the_values_are_the_same_at_the_moment(make: Make) -> None:
    ours, theirs = make("Walk-v0", copy=False), sync("Walk-v0")
    run_both(ours, theirs, "SameStep", 40)
    theirs.close()


def test_numbers_are_cast_to_the_action_space(make: Make) -> None:
    envs = make("Walk-v0", 2)
    envs.reset(seed=0)
    actions = {"turn": np.array([1, 2], np.uint8), "force": np.array([[0.5, 0.25], [1, 0]], np.float64)}
    assert envs.step(actions)[1].tolist() == [0.75, 1.0]
    pendulum = make("Pendulum-v1", 2)
    pendulum.reset(seed=0)
    theirs = sync("Pendulum-v1", 2)
    theirs.reset(seed=0)
    assert_same(pendulum.step(np.array([[0.5], [1.0]])), theirs.step(np.array([[0.5], [1.0]], np.float32)))
    theirs.close()
