from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from replay_server import ReplayServer

_REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReplayServer]:
    """A server that answers with what the test wrote, found through the environment."""
    server = ReplayServer()
    monkeypatch.setenv("SANDPOOL_URL", server.url)
    monkeypatch.setenv("SANDPOOL_API_KEY", "key-of-the-test")
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _interrupts_are_delivered() -> Iterator[None]:
    """A shell starts background programs with SIGINT ignored, which Python keeps."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A `sandpool up` of its own: url, key, and the folder of its credentials file."""
    program = _REPOSITORY / "bin" / "sandpool"
    home = tmp_path_factory.mktemp("server")
    environ = {**os.environ, "XDG_CONFIG_HOME": str(home / "config"), "XDG_DATA_HOME": str(home / "share")}
    environ.pop("SANDPOOL_URL", None)
    log = home / "log"
    with log.open("wb") as output:
        command = [program, "up", "--listen", "127.0.0.1:0", "--data", home / "data"]
        process = subprocess.Popen(command, env=environ, stdout=output, stderr=output)
    url = _wait_for_url(process, log)
    key = json.loads((home / "config/sandpool/credentials.json").read_text())["key"]
    yield {"url": url, "key": key, "config": str(home / "config"), "log": str(log)}
    process.terminate()
    process.wait(60)


def _wait_for_url(process: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        found = re.search(r"ready at (https?://[\w.\[\]:-]+)", log.read_text())
        if found:
            return found[1]
        time.sleep(0.05)
    process.kill()
    pytest.fail(f"sandpool up did not become ready: {log.read_text()}")


@pytest.fixture
def server(running_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A running `sandpool up`, found through its credentials file."""
    monkeypatch.delenv("SANDPOOL_URL", raising=False)
    monkeypatch.delenv("SANDPOOL_API_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", running_server["config"])
    return running_server
