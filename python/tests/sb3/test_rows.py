"""The rules of VecEnv on a real pool, without Stable-Baselines3."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from sandpool import InvalidValueError, NotSupportedError, PoolClosedError, RLPool
from sandpool.pool.frames import Frames
from sandpool.sb3.calls import render_frames
from sandpool.sb3.options import check_pool, pool_options, spaces_of
from sandpool.sb3.rows import Rows, Started, Stepped

COUNTER = """
    import os, time
    from sandpool.env import serve

    class Counter:
        def __init__(self, start_s):
            time.sleep(start_s)

        def reset(self, *, seed=None, options=None):
            if options and options.get("exit") or getattr(self, "exits", False):
                os._exit(4)
            self.seed, self.steps = 0 if seed is None else seed % 1000, 0
            return [self.seed, 0], {"options": options}

        def step(self, action):
            if action == 7:
                raise ValueError("on purpose")
            if action == 8:
                time.sleep(3600)
            if action == 9:
                os._exit(3)
            if action == 10:
                return [1, 2, 3], 0.0, False, False, {}
            self.steps += 1
            self.exits = action in (11, 12)
            if self.exits:
                return [self.seed, self.steps], 2.5, action == 11, action == 12, {"last": self.steps}
            return [self.seed, self.steps], float(action), action in (4, 5), action in (5, 6), {"last": self.steps}

        def render(self):
            import numpy
            return numpy.full((2, 3, 3), 255, numpy.uint8)

    serve(make=lambda index, config: Counter(config["start_s"]))
"""
SPACES = spaces.Box(0, 1000, (2,), np.int32), spaces.Discrete(13)
N = 3
ALIVE = {"TimeLimit.truncated": False}

Make = Callable[..., tuple[RLPool, Rows]]


@pytest.fixture
def make(server: dict[str, str], tmp_path: Path) -> Iterator[Make]:
    """Makes a pool of counters, observation [seed mod 1000, steps], and the rows over it."""
    (tmp_path / "env.py").write_text(textwrap.dedent(COUNTER))
    pools: list[RLPool] = []

    def make_rows(*, start_s: float = 0.0, **options: Any) -> tuple[RLPool, Rows]:
        known = pool_options({"step_timeout": 1.5, "progress": False, "config": {"start_s": start_s}, **options}, first_reset=True)
        pool = RLPool(tmp_path, N, **known)
        pools.append(pool)
        return pool, Rows(check_pool(pool, {}), *spaces_of(pool, *SPACES))

    yield make_rows
    for pool in pools:
        pool.close()


def step(rows: Rows, *actions: int) -> Stepped:
    return rows.step(rows.read_actions(list(actions)))


def reset(rows: Rows, seed: int) -> Started:
    return rows.reset([seed + row for row in range(N)], [{}] * N)


def test_rows_are_the_spaces_dtype_and_options_are_passed_on_only_where_there_are_some(make: Make) -> None:
    _, rows = make()
    started = rows.reset([5, 6, 7], [{}, {"task": 1}, {}])
    assert started.obs.dtype == np.int32
    assert started.obs.tolist() == [[5, 0], [6, 0], [7, 0]]
    assert [info["options"] for info in started.reset_infos] == [None, {"task": 1}, None]
    obs, rewards, dones, infos, reset_infos, errors = step(rows, 0, 1, 2)
    assert obs.tolist() == [[5, 1], [6, 1], [7, 1]]
    assert rewards.tolist() == [0, 1, 2]
    assert dones.tolist() == [False] * N
    assert infos == [{"last": 1, "TimeLimit.truncated": False}] * N
    assert (reset_infos, errors) == ({}, {})


def test_a_done_row_has_its_terminal_observation_and_the_first_of_the_next_episode(make: Make) -> None:
    _, rows = make()
    reset(rows, 20)
    step(rows, 1, 1, 1)
    stepped = step(rows, 4, 5, 6)
    assert stepped.dones.tolist() == [True] * N
    assert stepped.obs.tolist() == [[0, 0]] * N  # seeds="continue": no seed, which this environment calls 0
    assert [info["terminal_observation"].tolist() for info in stepped.infos] == [[20, 2], [21, 2], [22, 2]]
    assert {info["terminal_observation"].dtype for info in stepped.infos} == {np.dtype(np.int32)}
    # Row 1 was terminated and truncated at once: no time limit, by SB3's rule.
    assert [info["TimeLimit.truncated"] for info in stepped.infos] == [False, False, True]
    assert [info["last"] for info in stepped.infos] == [2, 2, 2]
    assert stepped.reset_infos == {row: {"options": None} for row in range(N)}


@pytest.mark.parametrize(("action", "kind"), [(7, "exception"), (8, "timeout"), (9, "crash"), (10, "protocol")])
def test_a_failed_row_ends_with_its_last_good_observation_and_begins_anew_in_the_same_step(make: Make, action: int, kind: str) -> None:
    _, rows = make()
    reset(rows, 30)
    step(rows, 1, 1, 1)
    stepped = step(rows, 1, action, 6)
    assert stepped.dones.tolist() == [False, True, True]
    assert stepped.rewards.tolist() == [1, 0, 6]
    assert stepped.obs[0].tolist() == [30, 2]
    assert stepped.obs[1, 1] == 0
    info = stepped.infos[1]
    assert info["terminal_observation"].tolist() == [31, 1]
    assert info["TimeLimit.truncated"] is False
    assert info["sandpool_error"]["kind"] == kind
    assert stepped.infos[2]["terminal_observation"].tolist() == [32, 2]
    assert stepped.reset_infos[1] == {"options": None}
    assert list(stepped.errors) == [1]
    after = step(rows, 1, 1, 1)
    assert after.obs[:, 1].tolist() == [3, 1, 1]
    assert after.obs[1, 0] == stepped.obs[1, 0]
    assert after.dones.tolist() == [False] * N


def test_a_reset_that_fails_after_the_end_of_an_episode_leaves_that_end_as_it_was(make: Make) -> None:
    _, rows = make()
    reset(rows, 20)
    step(rows, 1, 1, 1)
    stepped = step(rows, 11, 12, 1)
    assert (stepped.rewards.tolist(), stepped.dones.tolist()) == ([2.5, 2.5, 1], [True, True, False])
    for row, is_truncated in ((0, False), (1, True)):
        info = stepped.infos[row]
        assert (info["TimeLimit.truncated"], info["last"], info["sandpool_error"]["op"]) == (is_truncated, 2, "reset")
        assert info["terminal_observation"].tolist() == [20 + row, 2]
    assert stepped.obs[:, 1].tolist() == [0, 0, 2]
    assert step(rows, 1, 1, 1).dones.tolist() == [False] * N


def test_a_row_whose_replacement_is_late_stays_done_until_a_step_brings_its_first_observation(make: Make) -> None:
    _, rows = make(start_s=1.0, reset_timeout=0.1)
    reset(rows, 40)
    stepped = step(rows, 1, 9, 1)
    assert stepped.obs[1].tolist() == [41, 0]
    assert stepped.infos[1]["terminal_observation"].tolist() == [41, 0]
    assert list(stepped.errors) == [1]
    tries = 0
    while stepped.obs[1].tolist() == [41, 0]:
        stepped, tries = step(rows, 1, 1, 1), tries + 1
        # The old episode ends once more each time, so that no transition leads from it into the new one.
        assert stepped.dones.tolist() == [False, True, False]
        assert stepped.infos[1]["terminal_observation"].tolist() == [41, 0]
        assert stepped.infos[1]["sandpool_error"]["repeated"] is True
        assert stepped.infos[1]["TimeLimit.truncated"] is False
        assert stepped.rewards[1] == 0
        assert stepped.errors == {}
    assert stepped.obs[1, 1] == 0
    assert stepped.reset_infos == {1: {"options": None}}
    assert stepped.obs[0].tolist() == [40, 1 + tries]
    assert step(rows, 1, 1, 1).obs[1, 1] == 1


def test_a_row_that_was_reset_through_the_pool_is_not_told_of_again(make: Make) -> None:
    pool, rows = make(start_s=1.0, reset_timeout=0.1)
    reset(rows, 40)
    failed = step(rows, 9, 9, 1)
    assert list(failed.errors) == [0, 1]
    pool.reset(where=[1], hard=True)
    pool.fork(2, 0)
    stepped = step(rows, 1, 1, 1)
    assert stepped.dones.tolist() == [False] * N
    assert ["sandpool_error" in info for info in stepped.infos] == [False] * N
    assert stepped.obs[:, 1].tolist() == [2, 1, 2]


def test_frames_of_a_row_that_is_not_back_yet_are_black(make: Make) -> None:
    pool, rows = make(start_s=1.0, reset_timeout=0.1, python=sys.executable)
    frames = Frames()
    reset(rows, 50)
    assert [frame.min() for frame in render_frames(pool, frames)] == [255] * N
    step(rows, 1, 9, 1)
    shown = render_frames(pool, frames)
    assert [(frame.shape, frame.dtype, frame.max()) for frame in shown] == [((2, 3, 3), np.uint8, light) for light in (255, 0, 255)]


def test_rows_of_one_process_end_alone_when_they_raise_and_together_when_it_dies(make: Make) -> None:
    pool, rows = make(envs_per_process=N)
    assert pool.description["packing"]["processes"] == 1
    reset(rows, 70)
    stepped = step(rows, 1, 7, 1)
    assert stepped.dones.tolist() == [False, True, False]
    assert stepped.obs[:, 1].tolist() == [1, 0, 1]
    assert stepped.infos[1]["terminal_observation"].tolist() == [71, 0]
    stepped = step(rows, 1, 1, 9)
    assert stepped.dones.tolist() == [True] * N
    assert [info["sandpool_error"]["kind"] for info in stepped.infos] == ["crash"] * N
    assert [info["terminal_observation"][1] for info in stepped.infos] == [1, 0, 1]
    assert stepped.obs[:, 1].tolist() == [0] * N
    assert step(rows, 1, 1, 1).obs[:, 1].tolist() == [1] * N


def test_a_reset_that_fails_is_told_and_the_replacement_takes_its_place(make: Make) -> None:
    _, rows = make()
    started = rows.reset([50, 51, 52], [{}, {"exit": True}, {}])
    assert list(started.errors) == [1]
    assert started.errors[1]["op"] == "reset"
    assert started.obs[[0, 2]].tolist() == [[50, 0], [52, 0]]
    assert started.reset_infos == [{"options": None}] * N
    assert step(rows, 1, 1, 1).obs[:, 1].tolist() == [1, 1, 1]


def test_earlier_observations_and_infos_stay_as_they_were(make: Make) -> None:
    _, rows = make()
    before = reset(rows, 60)
    first = step(rows, 1, 1, 6)
    kept = first.obs.copy()
    step(rows, 1, 9, 6)
    assert before.obs.tolist() == [[60, 0], [61, 0], [62, 0]]
    assert np.array_equal(first.obs, kept)
    assert first.infos[2]["terminal_observation"].tolist() == [62, 1]
    assert first.infos[0] == {"last": 1, "TimeLimit.truncated": False}


def test_pools_and_spaces_that_vecenv_cannot_have_are_refused(make: Make, tmp_path: Path) -> None:
    pool, _ = make()
    with pytest.raises(InvalidValueError, match="announce no observation_space"):
        spaces_of(pool, None, SPACES[1])
    with pytest.raises(InvalidValueError, match=r"have the shape \(2,\); expected \(3,\)"):
        spaces_of(pool, spaces.Box(0, 1, (3,)), SPACES[1])
    with pytest.raises(InvalidValueError, match="autoreset='next_step' was given; expected 'same_step'"):
        pool_options({"autoreset": "next_step"}, first_reset=True)
    words = tmp_path / "words.py"
    words.write_text(
        "from sandpool.env import serve\nserve(reset=lambda seed: 'word', step=lambda action: ('word', 0.0, False, False, {}))\n"
    )
    with RLPool(words, 1, progress=False) as plain:
        with pytest.raises(InvalidValueError, match="autoreset=None; expected 'same_step'"):
            check_pool(plain, {})
        with pytest.raises(NotSupportedError, match="observations are a list of values"):
            spaces_of(plain, spaces.Text(8), SPACES[1])


def test_a_closed_pool_says_so(make: Make) -> None:
    pool, rows = make()
    pool.close()
    with pytest.raises(PoolClosedError, match="closed by close"):
        step(rows, 1, 1, 1)
    with pytest.raises(PoolClosedError, match="closed by close"):
        reset(rows, 1)
