"""Several rows in one process, and vectorised environments, against a running server with Gymnasium's own CartPole."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sandpool import RLPool, SandpoolError

gymnasium = pytest.importorskip("gymnasium")

N = 6
CARTPOLE = """
    import os
    import gymnasium.envs.classic_control.cartpole  # Before the fork: a row's own /tmp may hide these packages.
    from sandpool.env import serve

    class Faulty(gymnasium.Wrapper):
        def __init__(self, env, index):
            super().__init__(env)
            self.index, self.steps = index, 0
        def step(self, action):
            self.steps += 1
            fault = FAULTS.get((self.index, self.steps))
            if fault == "raise":
                raise ValueError(f"row {self.index} on purpose")
            if fault == "exit":
                os._exit(3)
            return super().step(action)

    FAULTS = {faults}
    serve(make=lambda index, config: Faulty(gymnasium.make("CartPole-v1"), index))
"""
VECTOR = """
    import gymnasium.envs.classic_control.cartpole  # Before the fork: a row's own /tmp may hide these packages.
    from sandpool.env import serve

    serve(make_vec=lambda num_envs: gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="vector_entry_point"))
"""
SLOW = """
    import time
    import gymnasium.envs.classic_control.cartpole  # Before the fork: a row's own /tmp may hide these packages.
    from sandpool.env import serve

    class Slow(gymnasium.Wrapper):
        def step(self, action):
            until = time.perf_counter() + 0.002
            while time.perf_counter() < until:
                pass
            return super().step(action)

    serve(make=lambda: Slow(gymnasium.make("CartPole-v1")))
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    def write(text: str) -> Path:
        folder = tmp_path_factory.mktemp("packing")
        (folder / "env.py").write_text(textwrap.dedent(text))
        return folder

    return write


def cartpole(programs: Any, faults: str = "{}") -> Path:
    return programs(CARTPOLE.replace("{faults}", faults))


def make(folder: Path, n: int = N, **options: Any) -> RLPool:
    return RLPool(folder, n, seed=3, python=sys.executable, progress=False, **options)


def trajectory(pool: RLPool, steps: int) -> list[Any]:
    generator = np.random.default_rng(0)
    rows: list[Any] = [pool.initial_obs]
    for _ in range(steps):
        result = pool.step(generator.integers(0, 2, pool.n))
        rows.append((result[0], result[1], result.terminated, result.truncated, result[3]))
    rows.append(pool.reset(seed=[1, None, 2, None, 3, 4]))
    return rows


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("autoreset", ["same_step", "next_step"])
def test_packed_rows_have_byte_for_byte_the_trajectories_of_rows_alone(programs: Any, autoreset: str) -> None:
    folder = cartpole(programs)
    runs = []
    for packing in ({}, {"envs_per_process": 4}, {"envs_per_process": 3, "shards": 2}):
        with make(folder, autoreset=autoreset, **packing) as pool:
            runs.append(trajectory(pool, 60))
    assert any(step[2].any() for step in runs[0][1:-1]), "no episode ended, so no reset was compared"
    for run in runs[1:]:
        for expected, received in zip(runs[0], run, strict=True):
            np.testing.assert_equal(received, expected)


@pytest.mark.usefixtures("server")
def test_a_row_that_raises_leaves_the_rows_of_its_process_alone(programs: Any) -> None:
    with make(cartpole(programs, '{(1, 2): "raise"}'), envs_per_process=3) as pool:
        good = pool.step(np.ones(N, int))[0]
        with pytest.warns(UserWarning, match="on purpose"):
            result = pool.step(np.ones(N, int))
        assert {row: error["kind"] for row, error in result.errors.items()} == {1: "exception"}
        np.testing.assert_array_equal(result[0][1], good[1])
        assert result[1].tolist() == [1, 0, 1, 1, 1, 1]
        pool.reset(where=[1])
        assert not pool.step(np.ones(N, int)).errors


@pytest.mark.usefixtures("server")
def test_a_crash_costs_the_rows_of_its_process_and_says_which(programs: Any) -> None:
    with make(cartpole(programs, '{(4, 2): "exit"}'), envs_per_process=3) as pool:
        pool.step(np.ones(N, int))
        with pytest.warns(UserWarning, match="crash"):
            result = pool.step(np.ones(N, int))
        assert {row: error["kind"] for row, error in result.errors.items()} == {3: "crash", 4: "crash", 5: "crash"}
        assert {error["exit_code"] for error in result.errors.values()} == {3}
        assert "3 to 5" in result.errors[3]["message"] or "3, 4, 5" in result.errors[3]["message"]
        pool.reset(where=[3, 4, 5])
        assert not pool.step(np.ones(N, int)).errors
        assert pool.status()["counters"]["replacements"] == 1


@pytest.mark.usefixtures("server")
def test_auto_packs_what_is_cheap_and_leaves_alone_what_is_dear(programs: Any) -> None:
    with make(cartpole(programs), envs_per_process="auto") as pool:
        packing = pool.status()["packing"]
        assert packing["requested"] == "auto"
        assert packing["rows_per_process"] > 1
        assert 0 < packing["step_us"] <= 250
        assert "share" in packing["reason"]
        assert not pool.step(np.zeros(N, int)).errors
    with make(programs(SLOW), envs_per_process="auto") as pool:
        packing = pool.status()["packing"]
        assert (packing["rows_per_process"], packing["processes"]) == (1, N)
        assert packing["step_us"] > 2000
        assert not pool.step(np.zeros(N, int)).errors


@pytest.mark.usefixtures("server")
def test_a_vectorised_environment_is_the_same_as_in_the_trainers_process(programs: Any) -> None:
    peers = [gymnasium.make_vec("CartPole-v1", num_envs=count, vectorization_mode="vector_entry_point") for count in (4, 2)]
    with make(programs(VECTOR), envs_per_process=4) as pool:
        status = pool.status()
        assert status["vector"]["class"] == "CartPoleVectorEnv"
        assert status["autoreset"] == status["vector"]["autoreset"] == "next_step"
        assert status["packing"]["processes"] == 2
        generator = np.random.default_rng(1)
        expected = np.concatenate([peer.reset(seed=seed)[0] for peer, seed in zip(peers, (20, 24), strict=True)])
        np.testing.assert_array_equal(pool.reset(seed=20), expected)
        for _ in range(50):
            actions = generator.integers(0, 2, N)
            parts = [peer.step(some) for peer, some in zip(peers, (actions[:4], actions[4:]), strict=True)]
            result = pool.step(actions)
            for mine, theirs in zip((result[0], result[1], result.terminated, result.truncated), zip(*parts, strict=True), strict=False):
                np.testing.assert_array_equal(mine, np.concatenate(theirs))


@pytest.mark.usefixtures("server")
def test_what_a_vectorised_environment_cannot_do_is_refused_by_its_class(programs: Any) -> None:
    folder = programs(VECTOR)
    with pytest.raises(SandpoolError, match="CartPoleVectorEnv") as refused:
        make(folder, envs_per_process=3, autoreset="same_step")
    assert refused.value.code == "vectorized_unsupported"
    with make(folder, envs_per_process=3) as pool:
        attempts = [
            lambda: pool.step(np.zeros(2, int), where=[0, 1]),
            lambda: pool.reset(where=[5]),
            lambda: pool.reset(seed=[1, 3, 5, 7, 9, 11]),
            lambda: pool.reset(hard=True, where=[0]),
        ]
        for attempt in attempts:
            with pytest.raises(SandpoolError, match="CartPoleVectorEnv") as refused:
                attempt()
            assert refused.value.code == "vectorized_unsupported"
        # Whole processes may be chosen, and nothing of the refused ones was executed.
        pool.step(np.zeros(3, int), where=[3, 4, 5])
        pool.reset(where=[0, 1, 2], hard=True)
        pool.reset(seed=[7, 8, 9, 1, 2, 3])


@pytest.mark.usefixtures("server")
def test_one_object_for_all_rows_cannot_be_packed(counter_object: Path) -> None:
    with pytest.raises(SandpoolError, match="make=") as refused:
        RLPool(counter_object, 2, envs_per_process=2, progress=False)
    assert refused.value.code == "packing_unsupported"


@pytest.fixture
def counter_object(programs: Any) -> Path:
    return programs("""
        from sandpool.env import serve
        serve(reset=lambda seed: [0.0], step=lambda action: ([0.0], 0.0, False, False, {}))
    """)
