"""A program with a standard input too long for a request: it goes through the WebSocket, from a thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import IO, Any

from sandpool.errors import SandpoolError
from sandpool.execs.result import ExecResult
from sandpool.execs.sources import AttachedSocket
from sandpool.execs.stream import ExecStream
from sandpool.machines.description import MachineRef
from sandpool.transport.calls import Calls

_INPUT_BYTES = 1 << 18


class Fed:
    """Runs one program; `end` may come from another thread."""

    def __init__(self, calls: Calls, machine: MachineRef, request: Mapping[str, Any], source: IO[bytes]) -> None:
        self._calls, self._machine, self._request, self._source = calls, machine, request, source
        self._running: ExecStream | None = None
        self._ended = threading.Event()

    def run(self) -> ExecResult:
        """Return the program's result. Whoever is interrupted meanwhile ends the program with its whole tree."""
        socket = AttachedSocket(self._calls, self._machine, start={**self._request, "stdin": ""})
        with ExecStream(self._calls, self._machine, socket, owned=True) as running:
            self._running = running
            if self._ended.is_set():
                running.kill()
            threading.Thread(target=_feed, args=(running, self._source), name=f"sandpool-stdin-{running.id}", daemon=True).start()
            return running.wait()

    def end(self) -> None:
        """End the program and all that it started."""
        self._ended.set()
        if self._running is not None:
            with contextlib.suppress(SandpoolError):
                self._running.kill()


def _feed(running: ExecStream, source: IO[bytes]) -> None:
    # A program may end without reading all of it; its result says the rest.
    with contextlib.suppress(SandpoolError):
        while data := source.read(_INPUT_BYTES):
            running.write_stdin(data)
        running.close_stdin()
