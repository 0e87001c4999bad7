"""Copies in a VecEnv, by its rules and without Stable-Baselines3."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from sandpool import ForkUnsupportedError, RLPool
from sandpool.sb3.options import check_pool, pool_options, spaces_of
from sandpool.sb3.rows import Rows

COUNTER = """
    import os, time
    from sandpool.env import serve

    class Counter:
        def __init__(self, start_s):
            time.sleep(start_s)

        def reset(self, *, seed=None, options=None):
            self.seed, self.steps = 0 if seed is None else seed, 0
            return [self.seed, 0], {"seed": self.seed}

        def step(self, action):
            if action == 9:
                os._exit(3)
            self.steps += 1
            return [self.seed, self.steps], float(action), action == 4, False, {}

    serve(make=lambda index, config: Counter(config["start_s"]))
"""
SPACES = spaces.Box(0, 1000, (2,), np.int32), spaces.Discrete(11)
N = 3
Make = Callable[..., tuple[RLPool, Rows]]


@pytest.fixture
def make(server: dict[str, str], tmp_path: Path) -> Iterator[Make]:
    """Makes a pool of counters, observation [seed, steps], and the rows over it."""
    (tmp_path / "env.py").write_text(textwrap.dedent(COUNTER))
    pools: list[RLPool] = []

    def make_rows(start_s: float = 0.0, **options: Any) -> tuple[RLPool, Rows]:
        known = pool_options({"progress": False, "shards": 1, "config": {"start_s": start_s}, **options}, first_reset=True)
        pools.append(RLPool(tmp_path, N, **known))
        return pools[-1], Rows(check_pool(pools[-1], {}), *spaces_of(pools[-1], *SPACES))

    yield make_rows
    for pool in pools:
        pool.close()


def test_copies_have_the_spaces_dtype_and_their_sources_reset_infos(make: Make) -> None:
    pool, rows = make()
    rows.reset([5, 6, 7], [{}] * N)
    rows.step(rows.read_actions([1, 1, 1]))
    copied = rows.take_copies(pool.batches.fork(0, [1, 2], None))
    assert copied.obs.dtype == np.int32
    assert copied.obs.tolist() == [[5, 1]] * N
    assert copied.reset_infos == [{}, {"seed": 5}, {"seed": 5}]
    assert copied.errors == {}
    stepped = rows.step(rows.read_actions([1, 4, 1]))
    assert stepped.obs.tolist() == [[5, 2], [0, 0], [5, 2]]
    assert stepped.dones.tolist() == [False, True, False]
    assert stepped.infos[1]["terminal_observation"].tolist() == [5, 2]


def test_a_row_that_waits_for_its_replacement_is_healed_by_a_copy_and_others_still_wait(make: Make) -> None:
    pool, rows = make(start_s=1.5, reset_timeout=0.1)
    rows.reset([40, 41, 42], [{}] * N)
    stepped = rows.step(rows.read_actions([1, 9, 9]))
    assert list(stepped.errors) == [1, 2]
    with pytest.raises(ForkUnsupportedError):
        pool.batches.fork(1, 0, None)
    copied = rows.take_copies(pool.batches.fork(0, 1, None))
    assert copied.obs.tolist() == [[40, 1], [40, 1], [42, 0]]
    stepped = rows.step(rows.read_actions([1, 1, 1]))
    # Its failed episode ended in the step before: the copy goes on as its source does, and row 2 ends once more.
    assert stepped.obs[:2].tolist() == [[40, 2], [40, 2]]
    assert stepped.dones.tolist() == [False, False, True]
    assert stepped.infos[1] == {"TimeLimit.truncated": False}
    assert "sandpool_error" in stepped.infos[2]
