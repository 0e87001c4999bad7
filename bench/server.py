"""A server for the measurements: its own port, data folder and key, gone at the end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / "bench" / "environments"
# Room for a hundred at once; no disk is saved in the middle of a measurement.
_MACHINES = ("--machines", "200", "--disk-save-interval", "0")


@dataclass
class Server:
    url: str
    key: str
    process_id: int


@contextlib.contextmanager
def running_server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="sandpool-bench-") as folder:
        variables = {**os.environ, "XDG_CONFIG_HOME": f"{folder}/config"}
        process = subprocess.Popen(
            [
                ROOT / "bin" / "sandpool",
                "up",
                "--listen",
                "127.0.0.1:0",
                "--data",
                f"{folder}/data",
                "--allow-unisolated",
                "--log-level",
                "error",
                *_MACHINES,
            ],
            env=variables,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield ready(process, Path(folder))
        finally:
            process.send_signal(signal.SIGUSR2)  # as `sandpool down`: with machines that a failed topic left
            process.wait(60)


def ready(process: subprocess.Popen[str], folder: Path) -> Server:
    assert process.stdout is not None
    for line in process.stdout:
        if re.search(r"https?://\S+", line):
            credentials = json.loads((folder / "config/sandpool/credentials.json").read_text())
            os.environ["SANDPOOL_URL"], os.environ["SANDPOOL_API_KEY"] = credentials["url"], credentials["key"]
            return Server(credentials["url"], credentials["key"], process.pid)
    raise RuntimeError(f"the server ended with {process.wait()} before it was ready; run bin/sandpool doctor")
