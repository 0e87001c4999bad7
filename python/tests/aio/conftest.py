from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from sandpool import AsyncRLPool
from stream.environments import WALK

Run = Callable[[Callable[[AsyncRLPool], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture(scope="session")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walk")
    (folder / "env.py").write_text(WALK)
    return folder


@pytest.fixture
def run(walk: Path, server: dict[str, str]) -> Run:
    """Runs a coroutine function with a pool of four rows; afterwards no thread, task or socket of it is left."""

    def running(test: Callable[[AsyncRLPool], Coroutine[Any, Any, Any]], n: int = 4, **options: Any) -> Any:
        async def main() -> Any:
            before = count_sockets()
            async with AsyncRLPool(walk, n, progress=False, **{"seed": 3, "step_timeout": 5, **options}) as pool:
                result = await test(pool)
            assert [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
            # Fewer, if the collector took those of an earlier test.
            assert count_sockets() <= before
            return result

        result = asyncio.run(main(), debug=True)
        assert [thread.name for thread in threading.enumerate() if thread.name.startswith("sandpool-batches")] == []
        return result

    return running


def count_sockets() -> int:
    """Sockets of this process; those that wait for the collector count too."""
    return sum(1 for entry in Path("/proc/self/fd").iterdir() if readlink(entry).startswith("socket:"))


def readlink(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


async def until(condition: Any) -> None:
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    pytest.fail("what was waited for did not come")
