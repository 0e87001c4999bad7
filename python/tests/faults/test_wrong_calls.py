"""A wrong call says what was received and what was expected, before anything is sent to an environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sandpool import RLPool, SandpoolError

ROWS = 8


@pytest.fixture(scope="module")
def pool(running_server: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RLPool]:
    folder = tmp_path_factory.mktemp("counter")
    (folder / "env.py").write_text(
        "from sandpool.env import serve\n"
        "count = 0\n"
        "def step(action):\n"
        "    global count\n"
        "    count += 1\n"
        "    return [float(count)], 1.0, False, False, {}\n"
        "serve(reset=lambda seed: [0.0], step=step)\n"
    )
    with RLPool(folder, ROWS, progress=False, url=running_server["url"], api_key=running_server["key"]) as pool:
        yield pool


@pytest.mark.parametrize(
    ("actions", "where", "words"),
    [
        ([0] * 7, None, ["7", "8"]),
        ([0] * 9, None, ["9", "8"]),
        (np.zeros((9, 2)), None, ["9", "8"]),
        (0, None, ["int", "one action for each row"]),
        ([0, 0], [1, 2, 3], ["2", "3"]),
        ([0, 0], [1, 1], ["1"]),
        ([0], [8], ["8", "7"]),
        ([0], [-1], ["-1"]),
        ([0] * 8, [True] * 7, ["7", "8"]),
        ([0], [1.5], ["1.5"]),
        ([0], "abc", ["abc"]),
        pytest.param([object()] * 8, None, ["object"], id="objects"),
    ],
    ids=repr,
)
def test_wrong_actions_and_masks_are_refused_before_anything_is_sent(pool: RLPool, actions: Any, where: Any, words: list[str]) -> None:
    before = pool.step([0] * ROWS)[0]
    with pytest.raises((ValueError, TypeError)) as caught:
        pool.step(actions, where=where)
    for word in words:
        assert word in str(caught.value)
    after = pool.step([0] * ROWS)[0]
    np.testing.assert_array_equal(after, before + 1)


def test_an_empty_where_is_a_no_op(pool: RLPool) -> None:
    before = pool.step([0] * ROWS)[0]
    result = pool.step([], where=[])
    np.testing.assert_array_equal(result[0], before)
    assert all(info == {"sandpool_skipped": True} for info in result[3])
    np.testing.assert_array_equal(pool.reset(where=np.zeros(ROWS, dtype=bool)), before)
    np.testing.assert_array_equal(pool.step([0] * ROWS)[0], before + 1)


def test_rows_not_selected_are_not_touched(pool: RLPool) -> None:
    before = pool.step([0] * ROWS)[0]
    observations, rewards, dones, infos = pool.step([0, 0], where=[2, 5])
    expected = before.copy()
    expected[[2, 5]] += 1
    np.testing.assert_array_equal(observations, expected)
    assert rewards.tolist() == [0, 0, 1, 0, 0, 1, 0, 0]
    assert not dones.any()
    assert [index for index, info in enumerate(infos) if info.get("sandpool_skipped")] == [0, 1, 3, 4, 6, 7]
    pool.reset()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n": 0}, ["0", "1"]),
        ({"n": -3}, ["-3"]),
        ({"n": 2.5}, ["2.5"]),
        ({"n": "8"}, ["'8'"]),
        ({"autoreset": "sometimes"}, ["sometimes", "same_step", "next_step"]),
        ({"seeds": "none"}, ["none", "derived", "continue"]),
        ({"start": "teleport"}, ["teleport", "auto"]),
        ({"errors": "ignore"}, ["ignore", "rows", "raise"]),
        ({"isolation": "chroot"}, ["chroot", "namespace"]),
        ({"memory": "many"}, ["many", "2GiB"]),
        ({"memory": 0}, ["0"]),
        ({"step_timeout": 0}, ["0"]),
        ({"step_timeout": float("nan")}, ["nan"]),
        ({"seed": -1}, ["-1"]),
        ({"seed": 2**53}, [str(2**53)]),
        ({"config": [{}, {}]}, ["2", "8"]),
        ({"python": "/does/not/exist"}, ["/does/not/exist"]),
        ({"name": "Not A Name!"}, ["Not A Name!"]),
        ({"env": {"A=B": "x"}}, ["A=B"]),
        ({"env": {"A": "x\0y"}}, ["env.A"]),
        ({"shards": 9}, ["9", "8"]),
        ({"in_flight": 0}, ["0"]),
        ({"envs_per_process": 9}, ["9", "8"]),
    ],
    ids=repr,
)
def test_a_wrong_option_is_refused(server: Any, options: dict[str, Any], words: list[str], tmp_path: Path) -> None:
    (tmp_path / "env.py").write_text(
        "from sandpool.env import serve\nserve(reset=lambda seed: 0.0, step=lambda action: (0.0, 0.0, False, False, {}))\n"
    )
    settings = {"n": ROWS, "progress": False, **options}
    with pytest.raises((ValueError, TypeError, SandpoolError)) as caught:
        RLPool(tmp_path, **settings).close()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_an_unknown_option_is_a_type_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="n_envs"):
        RLPool(tmp_path, n=8, n_envs=8)  # type: ignore[call-arg]


def test_a_folder_without_a_program_is_named(server: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    with pytest.raises(ValueError, match=r"env\.py") as caught:
        RLPool(tmp_path, 8, progress=False)
    assert str(tmp_path) in str(caught.value)


def test_a_missing_folder_is_named(server: Any, tmp_path: Path) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match="nowhere"):
        RLPool(tmp_path / "nowhere", 8, progress=False)


def test_no_server_names_the_url_and_the_command(environment: Callable[[str], Path]) -> None:
    with pytest.raises(SandpoolError) as caught:
        RLPool(environment("exits_0"), 8, url="http://127.0.0.1:9", api_key="x", progress=False)
    assert "http://127.0.0.1:9" in str(caught.value)
    assert "sandpool up" in str(caught.value)


def test_a_wrong_key_is_unauthorized(server: Any, environment: Callable[[str], Path]) -> None:
    with pytest.raises(SandpoolError) as caught:
        RLPool(environment("exits_0"), 8, url=server["url"], api_key="wrong", progress=False)
    assert caught.value.code == "unauthorized"
    assert "wrong" not in str(caught.value).replace("wrong key", "")


def test_a_closed_pool_says_so(server: Any, environment: Callable[[str], Path]) -> None:
    pool = RLPool(environment("exits_0"), 2, progress=False)
    pool.close()
    pool.close()
    for call in (lambda: pool.step([0, 0]), pool.reset, lambda: pool.call("render"), lambda: pool.status(), lambda: pool.logs(0)):
        with pytest.raises(SandpoolError, match="closed"):
            call()
