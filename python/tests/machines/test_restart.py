"""A server that is killed and comes back: programs go on, and those who wait for them get what they waited for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandpool import ExecResult, Sandpool

PROGRAM = Path(__file__).parents[3] / "bin" / "sandpool"


class RestartedServer:
    """A `sandpool up` of its own, always at the same address."""

    def __init__(self, home: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        self._home = home
        self._data = home / "data"
        self._environ = {**os.environ, "XDG_CONFIG_HOME": str(home / "config"), "XDG_DATA_HOME": str(home / "share")}
        self._starts = 0
        self.process = self.start()
        key = json.loads((home / "config/sandpool/credentials.json").read_text())["key"]
        self.client = Sandpool(f"http://{self._address}", key)

    def start(self) -> subprocess.Popen[bytes]:
        self._starts += 1
        log = self._home / f"log-{self._starts}"
        command = [PROGRAM, "up", "--listen", self._address, "--data", self._data]
        with log.open("wb") as output:
            process = subprocess.Popen(command, env=self._environ, stdout=output, stderr=output)
        until = time.monotonic() + 60
        while "is ready at" not in log.read_text():
            assert time.monotonic() < until, log.read_text()
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        return process

    def restart(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self.start()

    def end(self) -> None:
        self.client.close()
        subprocess.run([PROGRAM, "down", "--data", self._data], env=self._environ, check=False, capture_output=True)
        self.process.wait(60)


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[RestartedServer]:
    made = RestartedServer(tmp_path)
    yield made
    made.end()


def test_row_33_whoever_waits_for_a_program_gets_its_result_though_the_server_is_killed(restarted: RestartedServer) -> None:
    machines = restarted.client.machines
    box = machines.create(isolated=True, lifetime=300, progress=False)
    results: dict[str, ExecResult] = {}
    # Both end when they are told so, after the restart, and write down that they began.
    wait = "echo begun >> /tmp/begun; echo first; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo last"

    def run() -> None:
        results["exec"] = machines.exec(box, wait)

    def stream() -> None:
        with machines.stream_exec(box, wait) as running:
            results["stream"] = running.wait()

    threads = [threading.Thread(target=function) for function in (run, stream)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 30
    while machines.exec(box, ["cat", "/tmp/begun"]).stdout != "begun\nbegun\n":
        assert time.monotonic() < until
        time.sleep(0.05)
    restarted.restart()
    machines.files.write(box, "/tmp/go", "")
    for thread in threads:
        thread.join()
    assert {name: (result.stdout, result.exit_code) for name, result in results.items()} == {
        "exec": ("first\nlast\n", 0),
        "stream": ("first\nlast\n", 0),
    }
    assert machines.files.read_text(box, "/tmp/begun") == "begun\nbegun\n"
    machines.delete(box)
