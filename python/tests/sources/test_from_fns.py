"""Pools of functions: what is sent, what is checked inside, and that each row is its own function's environment."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from sandpool import EnvironmentFailedError, InvalidTypeError, InvalidValueError, RLPool
from sandpool.sources.from_fns import write_fns_environment

Open = Callable[..., RLPool]


def make_counter(start: int, low: float = 0.0) -> Callable[[], Any]:
    """Make a function whose environment counts up from `start`; it and its class are this file's, which no sandbox has."""

    class Counter(gymnasium.Env[Any, Any]):
        observation_space = spaces.Box(low, 1000.0, (2,), np.float32)
        action_space = spaces.Discrete(3)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.steps = 0
            return np.array([start, 0], np.float32), {"drawn": int(self.np_random.integers(1 << 30))}

        def step(self, action: Any) -> Any:
            self.steps += 1
            return np.array([start, self.steps], np.float32), float(action), self.steps == 3, False, {}

    return Counter


def test_each_row_is_the_environment_of_its_own_function(open_fns: Open) -> None:
    pool = open_fns([make_counter(10), make_counter(20), make_counter(30)])
    assert pool.n == 3
    assert pool.reset(seed=5).tolist() == [[10, 0], [20, 0], [30, 0]]
    drawn = [int(gymnasium.utils.seeding.np_random(5 + row)[0].integers(1 << 30)) for row in range(3)]
    assert [info["drawn"] for info in pool.reset_infos] == drawn
    obs, rewards, _, _ = pool.step([0, 1, 2])
    assert obs.tolist() == [[10, 1], [20, 1], [30, 1]]
    assert rewards.tolist() == [0, 1, 2]


def test_rows_with_other_spaces_are_refused_by_name_also_when_only_a_bound_differs(open_fns: Open) -> None:
    with pytest.raises(InvalidValueError, match=r"function 2 .* that of function 0 .* Expected equal spaces"):
        open_fns([make_counter(1), make_counter(2), make_counter(3, low=-1.0)])


def test_monitor_tells_return_and_length_with_the_last_step(open_fns: Open) -> None:
    pool = open_fns([make_counter(1)] * 2, monitor=True, autoreset="same_step")
    pool.step([1, 2])
    pool.step([1, 0])
    infos = pool.step([0, 2]).infos
    told = [info["final_info"]["episode"] for info in infos]
    assert [(episode["r"], episode["l"]) for episode in told] == [(2.0, 3), (4.0, 3)]
    assert all(0 < episode["t"] < 60 for episode in told)
    assert pool.is_wrapped("sandpool_monitor.Monitor") == [True, True]
    assert pool.call("get_episode_rewards") == [[2.0], [4.0]]
    assert pool.call("get_total_steps") == [3, 3]


def test_another_python_is_refused_inside_before_anything_is_unpickled(server: dict[str, str], tmp_path: Path) -> None:
    folder, _ = write_fns_environment(tmp_path, [make_counter(1)])
    about = json.loads((folder / "sandpool_fns.json").read_text())
    assert about["python"] == list(sys.version_info[:2])
    (folder / "sandpool_fns.json").write_text(json.dumps({**about, "python": [3, 7]}))
    (folder / "sandpool_fns.pickle").write_bytes(b"cos\n_exit\n(I9\ntR.")
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    with pytest.raises(EnvironmentFailedError, match=rf"pickled by Python 3\.7.* runs Python {here} .*python=") as caught:
        RLPool(folder, 1, progress=False)
    assert caught.value.kind == "exception"


def test_a_module_that_the_sandbox_lacks_is_named_with_what_to_do(open_fns: Open) -> None:
    def make() -> Any:
        return __import__("sandpool_test_absent")

    with pytest.raises(EnvironmentFailedError, match=r"need sandpool_test_absent, .* requirements=, .* code="):
        open_fns([make])


def test_code_of_ones_own_is_imported_inside(open_fns: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "library" / "sandpool_test_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("START = 70\n")
    (tmp_path / "library" / "sandpool_test_module.py").write_text("ADDED = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path / "library"))
    import sandpool_test_module  # type: ignore[import-not-found]

    make_inner = make_counter(1)

    def make() -> Any:
        from sandpool_test_package import START  # type: ignore[import-not-found]

        inner = make_inner()
        inner.reset = lambda **_: (np.array([START, sandpool_test_module.ADDED], np.float32), {})
        return inner

    pool = open_fns([make], code=[package, sandpool_test_module])
    assert pool.initial_obs.tolist() == [[70, 7]]


def test_the_sandbox_gets_the_clients_own_versions_unless_told_otherwise(tmp_path: Path) -> None:
    def required(name: str, requirements: list[str] | None) -> list[str] | None:
        (tmp_path / name).mkdir()
        folder, _ = write_fns_environment(tmp_path / name, [make_counter(1)], requirements=requirements)
        file = folder / "requirements.txt"
        return file.read_text().splitlines() if file.exists() else None

    numpy, gym, pickle = (f"{package}=={metadata.version(package)}" for package in ("numpy", "gymnasium", "cloudpickle"))
    assert required("default", None) == [numpy, gym, pickle]
    assert required("other", ["Gymnasium[other]>=1.1", "ale-py==0.11.2"]) == [numpy, pickle, "Gymnasium[other]>=1.1", "ale-py==0.11.2"]
    assert required("none", []) is None


def test_what_is_no_list_of_functions_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="fns is empty"):
        write_fns_environment(tmp_path, [])
    with pytest.raises(InvalidTypeError, match=r"fns\[1\] is of type int; expected a function"):
        write_fns_environment(tmp_path, [make_counter(1), 3])  # type: ignore[list-item]
    with pytest.raises(InvalidTypeError, match="fns is of type function; expected a list"):
        write_fns_environment(tmp_path, lambda: 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="requirements='numpy' is text; expected a list"):
        write_fns_environment(tmp_path, [make_counter(1)], requirements="numpy")
    lock = threading.Lock()
    with pytest.raises(InvalidTypeError, match=r"cannot be pickled: TypeError: .*lock"):
        write_fns_environment(tmp_path, [lambda: lock])


def test_code_that_is_not_there_or_takes_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="does not exist; expected a file or a folder"):
        write_fns_environment(tmp_path, [make_counter(1)], code=tmp_path / "absent.py")
    taken = tmp_path / "mine" / "env.py"
    taken.parent.mkdir()
    taken.write_text("")
    with pytest.raises(InvalidValueError, match=r"the name env\.py is taken"):
        write_fns_environment(tmp_path, [make_counter(1)], code=[taken])
    with pytest.raises(InvalidValueError, match="the module sys, which has no file"):
        write_fns_environment(tmp_path, [make_counter(1)], code=sys)
    with pytest.raises(InvalidValueError, match=r"the module gymnasium\.spaces, a part of a package"):
        write_fns_environment(tmp_path, [make_counter(1)], code=[spaces])
