"""A pytest plugin: one server for all tests, with data, configuration and key of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start `sandpool up` on a free port, and name it to the clients."""
    folder = tmp_path_factory.mktemp("server")
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    log = folder / "log"
    command = [str(ROOT / "bin/sandpool"), "up", "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield _address(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(600):
        found = re.search(r"ready at (\S+)", log.read_text())
        if found:
            return found.group(1)
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"sandpool up did not start:\n{log.read_text()}")
