"""Plays the agent for one environment process: starts it, speaks the protocol with it, forks it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

HELPER = Path(__file__).parents[2] / "src" / "sandpool" / "env"
EXAMPLES = Path(__file__).parents[3] / "examples"
VECTORS = Path(__file__).parents[3] / "vectors" / "env-protocol.json"
REPLY_SECONDS = 20


class Line:
    """One end of a channel: sends request lines, reads reply lines and the raw bytes after them."""

    def __init__(self, incoming: socket.socket, outgoing: socket.socket) -> None:
        self.incoming = incoming
        self.outgoing = outgoing
        self.buffer = b""
        self.raw = b""
        incoming.settimeout(REPLY_SECONDS)

    def send(self, data: bytes, descriptors: tuple[int, ...] = ()) -> None:
        if descriptors:
            sent = socket.send_fds(self.outgoing, [data], descriptors)
            data = data[sent:]
        self.outgoing.sendall(data)

    def read(self) -> bytes | None:
        """The next reply line, None at the end of the channel."""
        while b"\n" not in self.buffer:
            if not self.receive():
                return None
        line, _, self.buffer = self.buffer.partition(b"\n")
        size = json.loads(line).get("raw", 0)
        while len(self.buffer) < size:
            assert self.receive(), "the channel ended inside raw bytes"
        self.raw, self.buffer = self.buffer[:size], self.buffer[size:]
        return line

    def receive(self) -> bool:
        try:
            data = self.incoming.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return bool(data)

    def ask(self, request: dict[str, Any] | bytes, descriptors: tuple[int, ...] = ()) -> dict[str, Any]:
        line = request if isinstance(request, bytes) else json.dumps(request, separators=(",", ":")).encode() + b"\n"
        self.send(line, descriptors)
        reply = self.read()
        assert reply is not None, "the program ended instead of answering"
        answer: dict[str, Any] = json.loads(reply)
        return answer

    def hello(self, **members: Any) -> dict[str, Any]:
        plain = {"id": 1, "op": "hello", "protocol": 1, "index": 0, "n": 1, "rows": 1, "workspace": None, "config": None}
        return self.ask({**plain, **members})

    def template(self, **members: Any) -> dict[str, Any]:
        return self.hello(**{"template": True, "index": None, "n": 100, "config_per_row": False, **members})

    def reset(self, seed: int | None = 1, options: Any = None, request_id: int = 2) -> dict[str, Any]:
        return self.ask({"id": request_id, "op": "reset", "seed": seed, "options": options})

    def step(self, action: Any, request_id: int = 3) -> dict[str, Any]:
        return self.ask({"id": request_id, "op": "step", "action": action})

    def call(self, operation: str, name: str, **members: Any) -> dict[str, Any]:
        return self.ask({"id": 4, "op": operation, "name": name, **members})

    def step_rows(self, actions: Any, rows: list[int] | None = None, **members: Any) -> dict[str, Any]:
        return self.ask_rows({"op": "step", "rows": rows, "actions": actions, "deadline_ms": 20000, **members})

    def step_array(self, actions: Any, rows: list[int] | None = None) -> dict[str, Any]:
        """As the agent does: the actions as raw bytes after the line."""
        data = actions.tobytes()
        form = {"$nd": [actions.dtype.str, list(actions.shape), 0, len(data)]}
        request = {"id": 5, "op": "step", "rows": rows, "actions": form, "raw": len(data), "deadline_ms": 20000}
        answer = self.ask(json.dumps(request).encode() + b"\n" + data)
        read: dict[str, Any] = self.read_arrays(answer)
        return read

    def reset_rows(self, seeds: list[int | None] | None = None, rows: list[int] | None = None, **members: Any) -> dict[str, Any]:
        common = {"options": None, "hard": False, "deadline_ms": 20000}
        return self.ask_rows({"op": "reset", "rows": rows, "seeds": seeds, **common, **members})

    def call_rows(self, operation: str, name: str, rows: list[int] | None = None, **members: Any) -> dict[str, Any]:
        return self.ask_rows({"op": operation, "name": name, "rows": rows, "deadline_ms": 20000, **members})

    def ask_rows(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask a process of several rows; its arrays come back as numpy's."""
        answer = self.ask({"id": 5, **request})
        assert answer.pop("id") == 5
        read: dict[str, Any] = self.read_arrays(answer)
        return read

    def read_arrays(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.read_arrays(item) for item in value]
        if not isinstance(value, dict):
            return value
        if value.keys() == {"$tuple"}:
            return tuple(self.read_arrays(item) for item in value["$tuple"])
        if value.keys() != {"$nd"}:
            return {key: self.read_arrays(item) for key, item in value.items()}
        import numpy as np

        dtype, shape, *place = value["$nd"]
        data = base64.b64decode(place[0]) if len(place) == 1 else self.raw[place[0] : place[0] + place[1]]
        return np.frombuffer(data, dtype).reshape(shape)

    def close_channel(self) -> None:
        self.incoming.close()
        self.outgoing.close()


class Program(Line):
    """A program under test. `over="socket"` gives it SANDPOOL_FD, `over="stdio"` standard input and output only."""

    def __init__(
        self, argv: list[str], *, over: str = "socket", cwd: Path | None = None, environ: dict[str, str] | None = None, log: Path
    ) -> None:
        near, far = socket.socketpair()
        standard_near, standard_far = socket.socketpair()
        variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **(environ or {})}
        if "SANDPOOL_FD" not in (environ or {}):
            variables.pop("SANDPOOL_FD", None)
        passed: tuple[int, ...] = ()
        if over == "socket":
            variables["SANDPOOL_FD"] = str(far.fileno())
            passed = (far.fileno(),)
        self.log_path = log
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                argv, stdin=standard_far, stdout=standard_far, stderr=stderr, cwd=cwd, env=variables, pass_fds=passed
            )
        far.close()
        standard_far.close()
        self.standard = standard_near
        if over == "stdio":
            near.close()
            near = standard_near
        super().__init__(near, near)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def wait(self) -> int:
        return self.process.wait(REPLY_SECONDS)

    def end(self) -> None:
        self.close_channel()
        self.standard.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Child(Line):
    """An environment forked from a template; its first line is `first`."""

    def __init__(self, template: Line, index: int, folder: Path, **members: Any) -> None:
        near, far = socket.socketpair()
        self.log_path = folder / f"stderr-{index}"
        workspace = folder / f"ws-{index}"
        for name in ("workspace", "tmp", "shm"):
            (workspace / name).mkdir(parents=True, exist_ok=True)
        request = {"id": 100 + index, "op": "fork", "index": index, "workspace": str(workspace), "uid": 0, "gid": 0, "memory": None}
        request.update({"rlimits": {"as": None, "nproc": None}, "isolated": False, "branching": True, "reseed": None}, **members)
        with self.log_path.open("wb") as stderr:
            self.answer = template.ask(request, (far.fileno(), stderr.fileno()))
        far.close()
        self.workspace = workspace
        super().__init__(near, near)
        first = self.read() if "error" not in self.answer else None
        self.first: dict[str, Any] | None = None if first is None else json.loads(first)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")


class Copy(Line):
    """A live copy of an environment, with a copy of its workspace, as the agent makes them; `mounts` are the three detached ones."""

    def __init__(self, source: Child | Copy, index: int, folder: Path, mounts: tuple[int, ...] = (), **members: Any) -> None:
        near, far = socket.socketpair()
        self.log_path = folder / f"stderr-copy-{index}"
        self.workspace = folder / f"ws-copy-{index}"
        if not mounts:
            subprocess.run(["cp", "-a", str(source.workspace), str(self.workspace)], check=True)
        request = {"id": 200 + index, "op": "fork", "live": True, "index": index, "workspace": str(self.workspace), "uid": 0, "gid": 0}
        request.update({"memory": None, "rlimits": {}, "isolated": bool(mounts), "branching": True, "reseed": None}, **members)
        with self.log_path.open("wb") as stderr:
            self.answer = source.ask(request, (far.fileno(), stderr.fileno(), *mounts))
        far.close()
        super().__init__(near, near)
        first = self.read() if "error" not in self.answer else None
        self.first: dict[str, Any] | None = None if first is None else json.loads(first)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")


def vendor(folder: Path) -> Path:
    """Put the helper beside an environment's code, as the clients do."""
    package = folder / "sandpool"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    shutil.copytree(HELPER, package / "env", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    return folder


def python(*arguments: str) -> list[str]:
    return [sys.executable, "-u", *arguments]
