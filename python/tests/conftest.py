from __future__ import annotations

import os
import re
import subprocess
import sys
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


@pytest.fixture(scope="session")
def _running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    program = _REPOSITORY / "bin" / "sandpool"
    if not program.exists():
        if os.environ.get("SANDPOOL_REQUIRE_SERVER"):
            pytest.fail(f"{program} does not exist, and SANDPOOL_REQUIRE_SERVER is set")
        pytest.skip("bin/sandpool does not exist")
    home = tmp_path_factory.mktemp("server")
    environ = {**os.environ, "XDG_CONFIG_HOME": str(home / "config"), "XDG_DATA_HOME": str(home / "share")}
    environ.pop("SANDPOOL_URL", None)
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, "up", "--listen", "127.0.0.1:0", "--data", home / "data"], env=environ, stdout=subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    url = None
    for line in process.stdout:
        found = re.search(rb"https?://[\w.\[\]:-]+", line)
        if found:
            url = found[0].decode()
            break
    assert url, (home / "log").read_text()
    yield {"url": url, "config": str(home / "config"), "log": str(home / "log")}
    process.terminate()
    process.wait(60)
    process.stdout.close()


@pytest.fixture
def server(_running_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A running `sandpool up`, found through its credentials file."""
    monkeypatch.delenv("SANDPOOL_URL", raising=False)
    monkeypatch.delenv("SANDPOOL_API_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", _running_server["config"])
    return _running_server
