from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.vector import SyncVectorEnv

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import worlds  # noqa: E402

from sandpool.gymnasium import SandpoolVecEnv  # noqa: E402

BEFORE_1 = gymnasium.__version__.startswith("0.")
MODES = ["SameStep"] if BEFORE_1 else ["SameStep", "NextStep", "Disabled"]

Make = Callable[..., SandpoolVecEnv]


@pytest.fixture(scope="session")
def own_server(running_server: dict[str, str]) -> dict[str, Any]:
    """Options that lead to the tests' server, and to the very packages that the tests run on."""
    found = {"url": running_server["url"], "api_key": running_server["key"]}
    return {**found, "python": sys.executable, "requirements": [], "progress": False, "code": FOLDER / "worlds.py"}


@pytest.fixture
def make(own_server: dict[str, Any]) -> Iterator[Make]:
    """Makes vector environments of a registered id and closes them after the test."""
    made: list[SandpoolVecEnv] = []

    def one(name: str, n: int = 3, **options: Any) -> SandpoolVecEnv:
        known = f"worlds:{name}" if hasattr(worlds, name.split("-")[0]) else name
        made.append(SandpoolVecEnv.from_gym(known, n, **{**own_server, **options}))
        return made[-1]

    yield one
    for envs in made:
        envs.close()


@pytest.fixture(scope="session")
def own_pool_server(own_server: dict[str, Any]) -> dict[str, Any]:
    """The same without what only `from_gym` takes."""
    return {name: value for name, value in own_server.items() if name not in ("requirements", "code")}


def sync(name: str, n: int = 3, mode: str = "SameStep", **arguments: Any) -> SyncVectorEnv:
    """The same environments in this process."""
    options: dict[str, Any] = {} if BEFORE_1 else {"autoreset_mode": mode}
    return SyncVectorEnv([lambda: gymnasium.make(name, **arguments)] * n, **options)
