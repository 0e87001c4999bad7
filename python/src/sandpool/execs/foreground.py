"""A program in the foreground: one request whose key lets a repetition join the program after a broken connection."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from typing import Any

from sandpool.errors import SandpoolError
from sandpool.execs.result import ExecResult, read_result
from sandpool.machines.description import MachineRef, path_of
from sandpool.transport.calls import Calls, encode, repeat_when_broken

# After the timeout the tree is ended, politely first, and the output collected.
_MARGIN_S = 90.0
_GOODBYE_TIMEOUT_S = 10.0


class Foreground:
    """Runs one program; `end` may come from another thread."""

    def __init__(self, calls: Calls, machine: MachineRef, request: Mapping[str, Any]) -> None:
        self._calls = calls
        self._path = path_of(machine, "exec")
        self._body = encode(request)
        self._headers = {"Idempotency-Key": uuid.uuid4().hex}
        timeout = request.get("timeout")
        self._silence_s = None if timeout is None else float(timeout) + _MARGIN_S

    def run(self) -> ExecResult:
        """Return the program's result."""
        return read_result(self.start())

    def start(self) -> Any:
        """Return the reply. Whoever is interrupted meanwhile, by Ctrl-C say, ends the program with its whole tree."""
        try:
            return repeat_when_broken(self._request)
        except SandpoolError:
            raise
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """End the program and all that it started. Where the server is out of reach it does so itself, a minute later."""
        with contextlib.suppress(SandpoolError):
            self._calls.read_json("DELETE", self._path, headers=self._headers, timeout_s=_GOODBYE_TIMEOUT_S)

    def _request(self) -> Any:
        return self._calls.read_json("POST", self._path, data=self._body, headers=self._headers, timeout_s=self._silence_s)
