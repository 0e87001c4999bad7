"""Resets of some rows by options["reset_mask"]."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from assert_same import assert_same

from conftest import BEFORE_1, MODES, Make, sync


@pytest.mark.skipif(BEFORE_1, reason="0.29 resets all")
@pytest.mark.parametrize("mode", MODES)
def test_every_mask_resets_its_rows_and_no_other_as_sync_vector_env_does(make: Make, mode: str) -> None:
    ours, theirs = make("Walk-v0", autoreset_mode=mode), sync("Walk-v0", mode=mode)
    assert_same(ours.reset(seed=3), theirs.reset(seed=3))
    theirs.action_space.seed(4)
    ended = np.zeros(3, bool)
    for mask in [pattern for pattern in itertools.product([False, True], repeat=3) if any(pattern)] * 2:
        reset_mask = np.array(mask) | (ended if mode == "Disabled" else False)
        options = {"reset_mask": reset_mask, "note": "kept"}
        seeds = [10, None, 12]
        received = ours.reset(seed=seeds, options=options)
        assert options.keys() == {"reset_mask", "note"}
        assert_same(received, theirs.reset(seed=seeds, options=dict(options)))
        for _ in range(2):
            actions = theirs.action_space.sample()
            expected = theirs.step(actions)
            assert_same(ours.step(actions), expected)
            ended = expected[2] | expected[3]
            if mode == "Disabled" and ended.any():
                break
    theirs.close()


def test_a_mask_that_is_none_is_refused_before_anything_is_sent(make: Make) -> None:
    envs = make("CartPole-v1")
    before = envs.timing.summary()["batches"]
    for mask, error, message in (
        ([True, False, True], TypeError, "must be a numpy array, got <class 'list'>"),
        (np.array([True, False]), ValueError, r"must have shape `\(3,\)`, got \(2,\)"),
        (np.array([1, 0, 1]), TypeError, "must have `dtype=np.bool_`, got int64"),
        (np.zeros(3, bool), ValueError, "at least one True value"),
    ):
        with pytest.raises(error, match=message):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="must match num_envs=3 but got length=2"):
        envs.reset(seed=[1, 2])
    with pytest.raises(TypeError, match="seed is of type str"):
        envs.reset(seed="1")
    assert envs.timing.summary()["batches"] == before


def test_seeds_are_read_back_and_kept_by_a_reset_without(make: Make) -> None:
    envs = make("CartPole-v1")
    envs.reset(seed=[5, 6, 7])
    assert envs.np_random_seed == (5, 6, 7)
    envs.reset()
    envs.reset(seed=9, options={"reset_mask": np.array([False, True, False])})
    assert envs.np_random_seed == (5, 10, 7)
    assert [generator.integers(100) for generator in envs.np_random] == [np.random.default_rng(seed).integers(100) for seed in (5, 10, 7)]


def test_two_runs_with_one_seed_are_the_same_byte_for_byte(make: Make) -> None:
    def run() -> bytes:
        envs = make("Walk-v0", 4, envs_per_process=2, seed=12)
        envs.action_space.seed(0)
        observations = [envs.reset()[0], *(envs.step(envs.action_space.sample())[0] for _ in range(60))]
        return b"".join(part["place"].tobytes() + part["pair"][1].tobytes() for part in observations)

    assert run() == run()
