from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def environment(tmp_path: Path) -> Callable[[str], Path]:
    """A folder with the named fault program as env.py and what it imports beside it."""

    def make(program: str) -> Path:
        folder = tmp_path / program
        folder.mkdir(exist_ok=True)
        shutil.copy(PROGRAMS / f"{program}.py", folder / "env.py")
        for shared in ("walk.py", "plain.py"):
            shutil.copy(PROGRAMS / shared, folder / shared)
        return folder

    return make


class Marker:
    """Finds the processes of a pool on the host by a variable in their environment."""

    def __init__(self) -> None:
        self.variables = {"SANDPOOL_TEST_MARK": uuid.uuid4().hex}

    def processes(self) -> list[int]:
        wanted = self.variables["SANDPOOL_TEST_MARK"].encode()
        found = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and int(folder.name) != os.getpid() and wanted in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    def none_left(self, seconds: float = 5) -> bool:
        until = time.monotonic() + seconds
        while self.processes():
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True


@pytest.fixture
def marker() -> Marker:
    return Marker()
