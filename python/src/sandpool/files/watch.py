"""What happens to files inside, as it happens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import TracebackType

import urllib3

from sandpool.files.entries import FileChange
from sandpool.transport.calls import Calls, decode, event_error

# The server says something every few seconds.
_SILENCE_S = 60.0


class FileWatch:
    """Changes below a path. Iterate over it, in a ``with`` block or with `close` at the end."""

    def __init__(self, calls: Calls, path: tuple[str, ...], query: Mapping[str, str]) -> None:
        self._calls = calls
        self._open = contextlib.ExitStack()
        headers = {"Accept": "application/x-ndjson"}
        reply = self._open.enter_context(calls.open("GET", path, query=query, headers=headers, timeout_s=_SILENCE_S))
        self._changes = self._read(reply)

    def __iter__(self) -> Iterator[FileChange]:
        return self._changes

    def __next__(self) -> FileChange:
        return next(self._changes)

    def close(self) -> None:
        """End the watch."""
        self._open.close()

    def __enter__(self) -> FileWatch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _read(self, reply: urllib3.BaseHTTPResponse) -> Iterator[FileChange]:
        for line in self._calls.server.lines(reply):
            members = decode(line, reply.status)
            if isinstance(members, dict) and "error" in members:
                raise event_error(members)
            if not isinstance(members, dict) or members.get("event") != "heartbeat":
                yield FileChange.of_wire(members)
