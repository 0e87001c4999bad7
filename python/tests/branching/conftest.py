from __future__ import annotations

import hashlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import Marker
from sandpool import RLPool

PROGRAMS = Path(__file__).parent / "programs"
Make = Callable[..., RLPool]
Write = Callable[[str], Path]


@pytest.fixture
def marker() -> Marker:
    return Marker()


@pytest.fixture
def make(server: Any, marker: Marker) -> Iterator[Make]:
    """Makes pools in one sandbox on this interpreter, and closes them."""
    pools: list[AbstractContextManager[Any]] = []

    def make(folder: Path, n: int, **options: Any) -> RLPool:
        settings = {"seed": 7, "shards": 1, "python": sys.executable, "env": marker.variables, "progress": False, **options}
        pool = RLPool(folder, n, **settings)
        pools.append(pool)
        return pool

    yield make
    for pool in pools:
        pool.__exit__(None, None, None)
    assert marker.none_left(), f"processes left after close: {marker.processes()}"


@pytest.fixture(scope="session")
def stateful() -> Path:
    return PROGRAMS / "stateful"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Makes a folder with the given text as env.py."""

    def write(program: str) -> Path:
        folder = tmp_path / f"environment{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "env.py").write_text(textwrap.dedent(program))
        return folder

    return write


class Host:
    """What of a server's pools is on the host."""

    def __init__(self, data: Path, marker: Marker) -> None:
        # As the worker names a server's folders: packages/worker/src/host/folders.ts.
        self._key = hashlib.sha256(str(data.resolve()).encode()).hexdigest()[:12]
        self._data = data
        self._marker = marker

    def things(self) -> dict[str, list[str]]:
        """Processes of this test's pools, and the mounts, cgroups and sandbox folders of the server, by name."""
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        groups = Path("/sys/fs/cgroup").glob("*/*")
        return {
            "processes": [str(pid) for pid in self._marker.processes()],
            "mounts": [line.split()[4] for line in mounts if self._key in line or str(self._data) in line],
            "groups": [str(path) for group in groups if self._key in group.name for path in group.rglob("*") if path.is_dir()],
            "folders": [str(path) for path in Path(f"/run/sandpool/{self._key}/sandboxes").glob("*")],
        }


@pytest.fixture
def host(running_server: dict[str, str], marker: Marker) -> Host:
    return Host(Path(running_server["config"]).parent / "data", marker)
