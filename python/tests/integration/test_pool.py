"""A pool against a running server, with real environments."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sandpool
from sandpool import RLPool

N = 4


def derived(pool_seed: int, row: int, episode: int) -> int:
    """The rule of docs/pools.md, section Seeds."""
    return int.from_bytes(hashlib.sha256(f"sandpool-seed/1:{pool_seed}:{row}:{episode}".encode()).digest()[:4], "big") >> 1


@pytest.fixture
def pool(counter: Path, server: dict[str, str]) -> Iterator[RLPool]:
    with RLPool(counter, N, seed=11, step_timeout=1.5, progress=False) as made:
        yield made


def test_resets_without_a_seed_get_the_derived_seeds_of_row_and_episode(pool: RLPool) -> None:
    assert pool.initial_obs[:, 0].tolist() == [derived(11, row, 0) for row in range(N)]
    assert pool.reset()[:, 0].tolist() == [derived(11, row, 1) for row in range(N)]
    pool.reset(where=[2])
    assert pool.reset()[:, 0].tolist() == [derived(11, row, 3 if row == 2 else 2) for row in range(N)]


def test_a_seed_s_gives_row_i_the_seed_s_plus_i_and_a_list_each_its_own(pool: RLPool) -> None:
    assert pool.reset(seed=100)[:, 0].tolist() == [100, 101, 102, 103]
    obs = pool.reset(seed=[5, None, 6, None], where=[True, False, True, False])
    assert obs[:, 0].tolist() == [5, 101, 6, 103]


def test_options_are_one_dict_for_all_or_one_a_row(pool: RLPool) -> None:
    pool.reset(options={"task": 1})
    assert [info["options"] for info in pool.reset_infos] == [{"task": 1}] * N
    pool.reset(options=[{"task": row} for row in range(N)], where=[1, 3])
    assert [info["options"]["task"] for info in pool.reset_infos] == [1, 1, 1, 3]


def test_steps_are_rows_in_index_order_and_unselected_rows_stay(pool: RLPool) -> None:
    pool.reset(seed=0)
    obs, rewards, dones, infos = result = pool.step([1, 7, 8, 2])
    assert obs.tolist() == [[0, 1], [1, 1], [2, 1], [3, 1]]
    assert rewards.tolist() == [1, 7, 8, 2]
    assert result.terminated.tolist() == [False, True, False, False]
    assert result.truncated.tolist() == [False, False, True, False]
    assert dones.tolist() == [False, True, True, False]
    assert infos == [{}] * N
    result = pool.step([30, 10], where=[3, 1])
    assert result.obs.tolist() == [[0, 1], [1, 2], [2, 1], [3, 2]]
    assert result.rewards.tolist() == [0, 10, 0, 30]
    assert [info.get("sandpool_skipped", False) for info in result.infos] == [True, False, True, False]


@pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")
@pytest.mark.parametrize(
    ("action", "kind", "terminated"), [(90, "exception", True), (91, "crash", False), (92, "timeout", False), (94, "protocol", False)]
)
def test_a_failed_row_costs_its_row_and_comes_back_by_a_reset(pool: RLPool, action: int, kind: str, terminated: bool) -> None:
    pool.reset(seed=0)
    pool.step([1] * N)
    result = pool.step([1, action, 1, 1])
    assert result.obs.tolist() == [[0, 2], [1, 1], [2, 2], [3, 2]]
    assert result.rewards.tolist() == [1, 0, 1, 1]
    assert list(result.errors) == [1]
    assert result.errors[1]["kind"] == kind
    assert (result.terminated[1], result.truncated[1]) == (terminated, not terminated)
    assert pool.timing.stragglers == ([1] if kind == "timeout" else [])
    again = pool.step([1] * N)
    assert again.errors[1]["repeated"] is True
    assert pool.reset(seed=50, where=[1]).tolist() == [[0, 3], [51, 0], [2, 3], [3, 3]]
    assert pool.step([1] * N).errors == {}


def test_calls_reach_the_environment_with_their_values(pool: RLPool) -> None:
    pool.step([1] * N)
    assert pool.call("steps") == [1] * N
    results = pool.call("echo", (1, (2.5, None)), {"data": b"\x00\xff", "big": 10**30, "nan": float("inf")}, where=[2])
    assert results[2] == ((1, (2.5, None)), {"data": b"\x00\xff", "big": 10**30, "nan": float("inf")})
    assert [results[row] for row in (0, 1, 3)] == [None] * 3
    pool.set_attr("level", [10, 11, 12, 13])
    assert pool.get_attr("level") == [10, 11, 12, 13]
    pool.set_attr("level", 5, where=[0])
    assert pool.get_attr("level") == [5, 11, 12, 13]
    assert pool.has_attr("level") == [True] * N
    assert pool.has_attr("nothing") == [False] * N
    with pytest.warns(sandpool.SandpoolWarning, match="environment 0 failed in"):
        failed = pool.call("nothing")
    assert sorted(failed.errors) == [0, 1, 2, 3]
    assert pool.step([1] * N).errors == {}


def test_status_and_logs_come_from_the_environments(pool: RLPool) -> None:
    pool.step([1] * N)
    status = pool.status()
    assert [row["state"] for row in status["rows"]] == ["ready"] * N
    # Each sandbox numbers its processes itself.
    assert all(row["pid"] > 1 for row in status["rows"])
    assert status["memory"]["environments_pss_bytes"] > 0
    assert status["memory"]["method"]
    assert pool.status(memory=False)["memory"] is None
    assert pool.logs(1).splitlines()[-1] == "step 1 \\x1b[2J"
    assert pool.logs(1, raw=True).splitlines()[-1] == b"step 1 \x1b[2J"


def test_autoreset_happens_in_the_same_round_trip(counter: Path, server: dict[str, str]) -> None:
    with RLPool(counter, N, seed=3, autoreset="same_step", progress=False) as pool:
        result = pool.step([7, 1, 8, 1])
        assert result.obs[0].tolist() == [derived(3, 0, 1), 0]
        assert result.infos[0]["final_obs"] == [derived(3, 0, 0), 1] or list(result.infos[0]["final_obs"]) == [derived(3, 0, 0), 1]
        assert result.dones.tolist() == [True, False, True, False]


def test_errors_raise_names_the_row(counter: Path, server: dict[str, str]) -> None:
    with (
        RLPool(counter, N, errors="raise", progress=False) as pool,
        pytest.raises(sandpool.RowsFailedError, match=r"environment 2.*on purpose"),
    ):
        pool.step([1, 1, 90, 1])


def test_values_without_an_array_form_make_a_list_pool(write_environment: Callable[[str], Path], server: dict[str, str]) -> None:
    folder = write_environment("""
        from sandpool.env import serve

        def reset(seed, options=None):
            return {"text": "é\\u202e", "$odd": (1, b"\\x00"), "big": 10**300, "not": float("nan")}, {"$nd": [1]}

        def step(action):
            return action, float("-inf"), False, False, {}

        serve(reset=reset, step=step)
    """)
    with RLPool(folder, 2, progress=False) as pool:
        observation = pool.initial_obs[1]
        assert np.isnan(observation.pop("not"))
        assert observation == {"text": "é\u202e", "$odd": (1, b"\x00"), "big": 10**300}
        assert pool.reset_infos[0] == {"$nd": [1]}
        result = pool.step([{"a": (1, 2)}, [None, "x", 10**30]])
        assert result.obs == [{"a": (1, 2)}, [None, "x", 10**30]]
        assert result.rewards.tolist() == [-np.inf, -np.inf]
        assert result.infos[0]["sandpool_warning"] == "nonfinite_reward"
        assert result.errors == {}


def test_a_gymnasium_environment_announces_its_spaces(write_environment: Callable[[str], Path], server: dict[str, str]) -> None:
    folder = write_environment("""
        import gymnasium as gym
        import numpy as np
        from sandpool.env import serve

        class Environment(gym.Env):
            observation_space = gym.spaces.Dict(
                image=gym.spaces.Box(0, 255, (2, 2), np.uint8), pose=gym.spaces.Tuple([gym.spaces.Discrete(9), gym.spaces.Box(-1, 1, (1,))])
            )
            action_space = gym.spaces.Dict(turn=gym.spaces.Discrete(3), gas=gym.spaces.Box(-1, 1, (2,)))

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                return self.observe(0, [0.0]), {}

            def step(self, action):
                return self.observe(action["turn"], action["gas"][:1]), 1, False, False, {}

            def observe(self, number, gas):
                return {"image": np.full((2, 2), number, np.uint8), "pose": (np.int64(number), np.asarray(gas, np.float32))}

        serve(make=lambda config: Environment())
    """)
    with RLPool(folder, 3, python=sys.executable, progress=False) as pool:
        from sandpool.spaces import to_gymnasium

        space = to_gymnasium(pool.action_space)
        assert set(space.spaces) == {"turn", "gas"}
        turn, gas = np.array([0, 1, 2]), np.array([[0.5, 0], [0.25, 0], [0, 0]], np.float32)
        obs = pool.step({"turn": turn, "gas": gas}).obs
        assert list(obs) == ["image", "pose"]
        assert obs["image"].dtype == np.uint8
        np.testing.assert_array_equal(obs["image"][:, 0, 0], turn)
        np.testing.assert_array_equal(obs["pose"][0], turn)
        np.testing.assert_array_equal(obs["pose"][1], gas[:, :1])


def test_a_fault_at_creation_names_the_row_and_leaves_nothing(write_environment: Callable[[str], Path], server: dict[str, str]) -> None:
    folder = write_environment("import sys; sys.exit('no licence \\x1b[2J')")
    with pytest.raises(sandpool.EnvironmentFailedError) as caught:
        RLPool(folder, 2, name="faulty", progress=False)
    assert "no licence" in caught.value.stderr_tail
    assert "\x1b" not in str(caught.value)
    with pytest.raises(sandpool.NotFoundError):
        RLPool.attach("faulty")


def test_numbers_of_numpy_are_numbers_in_every_option(counter: Path, server: dict[str, str]) -> None:
    options: dict[str, Any] = {
        "seed": np.int64(3), "shards": np.uint8(1), "memory": np.int64(2**28), "step_timeout": np.float32(3), "in_flight": np.int16(1),
    }  # fmt: skip
    with RLPool(counter, np.int32(2), progress=False, **options) as pool:
        assert pool.initial_obs[:, 0].tolist() == [derived(3, 0, 0), derived(3, 1, 0)]
        assert pool.description["limits"]["memory_bytes"] == 2**28


@pytest.mark.parametrize("arguments", [{"pool_id": 5}, {"pool_id": ""}, {"pool_id": "x", "errors": "ignore"}, {"pool_id": "x", "n": 2}])
def test_attach_refuses_what_it_cannot_use(server: dict[str, str], arguments: dict[str, Any]) -> None:
    with pytest.raises((sandpool.InvalidTypeError, sandpool.InvalidValueError)):
        RLPool.attach(**arguments)


def test_a_wrong_key_is_refused(counter: Path, server: dict[str, str]) -> None:
    with pytest.raises(sandpool.AuthenticationError):
        RLPool(counter, 1, url=server["url"], api_key="wrong", progress=False)


def test_a_pool_is_closed_when_its_interpreter_ends(counter: Path, server: dict[str, str]) -> None:
    program = f"""
        from sandpool import RLPool
        pool = RLPool({str(counter)!r}, 1, name="forgotten", progress=False)
        print(pool.id)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, env=os.environ)
    assert ended.stdout.startswith("pool_")
    assert ended.stderr == ""
    with pytest.raises(sandpool.SandpoolError) as caught:
        RLPool.attach("forgotten")
    assert caught.value.code in ("pool_not_found", "pool_closed")
