"""Requests about machines and images: JSON both ways, read as plain JSON, for names and labels are the user's own text."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import urllib3

from sandpool.errors import ConnectionLostError, NoServerError, ReplyError, SandpoolError, error_from_reply
from sandpool.transport.server import Query, Server

T = TypeVar("T")

_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
# A restarted server needs a moment; it ends a program that nobody comes back for after 60 s.
_PATIENCE_S = 50.0
_LONGEST_PAUSE_S = 2.0
_HELD_S = 5.0
_JSON = {"Accept": "application/json"}


class Calls:
    """One server, for calls from any thread."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def json(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Query | None = None,
        body: Any = None,
        timeout_s: float | None = 60.0,
    ) -> Any:
        """Send a request and return its decoded reply. One that may be repeated is, once, where a kept connection has been closed."""
        data = None if body is None else encode(body)
        for attempt in (1, 2):
            try:
                return self.read_json(method, path, query=query, data=data, timeout_s=timeout_s)
            except ConnectionLostError:
                if attempt == 2 or method not in _IDEMPOTENT:
                    raise
        raise AssertionError("unreachable")

    def read_json(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Query | None = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = 60.0,
    ) -> Any:
        """Send a request once and return its decoded reply."""
        sent = {**_JSON, **(headers or {})} | ({} if data is None else {"Content-Type": "application/json"})
        with self.open(method, path, query=query, headers=sent, body=data, timeout_s=timeout_s) as reply:
            return decode(b"".join(self.server.pieces(reply)), reply.status)

    def lines(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        silence_s: float = 60.0,
    ) -> Iterator[dict[str, Any]]:
        """Send a request whose reply is NDJSON and yield its objects as they come; leaving the loop closes the connection."""
        sent = {"Accept": "application/x-ndjson", **(headers or {})}
        with self.open(method, path, query=query, headers=sent, body=body, timeout_s=silence_s) as reply:
            for line in self.server.lines(reply):
                members = decode(line, reply.status)
                if not isinstance(members, dict):
                    raise ReplyError(f"A line of the server's reply is {members!r:.100}; expected a JSON object.")
                yield members

    @contextlib.contextmanager
    def open(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        timeout_s: float | None = 60.0,
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Send a request and give its reply unread. A reply that was read whole leaves its connection for the next request."""
        reply = self.server.open(method, path, query=query, headers=headers, body=body, timeout_s=timeout_s)
        try:
            yield reply
        finally:
            reply.close()


def encode(members: object) -> bytes:
    """Encode a request's body."""
    return json.dumps(members).encode()


def decode(data: bytes, status: int) -> Any:
    """Decode a reply's body; nothing in it is a tag of ours."""
    try:
        return json.loads(data)
    except ValueError as error:
        raise ReplyError(
            f"The server answered status {status} with what is not JSON: {data[:100]!r}.", hint="Is the URL that of a Sandpool server?"
        ) from error


def event_error(line: Mapping[str, Any]) -> SandpoolError:
    """Make the error of the last line of a stream of events."""
    status = line.get("status")
    return error_from_reply(status if isinstance(status, int) else 500, dict(line))


def repeat_when_broken(request: Callable[[], T], *, has_begun: bool = False) -> T:
    """Repeat a request that has a key, and so joins what it began, until the server has answered it.

    A server that is not there at the first attempt is an error at once; one that was (`has_begun`) may be restarting.
    """
    until: float | None = None
    pause_s = 0.0
    while True:
        began = time.monotonic()
        try:
            return request()
        except SandpoolError as error:
            if not is_break(error) and not (has_begun and isinstance(error, NoServerError)):
                raise
            # A connection that held for a while is a new break, not the same one still.
            if until is None or time.monotonic() - began > _HELD_S:
                until, pause_s = time.monotonic() + _PATIENCE_S, 0.0
            elif time.monotonic() + pause_s > until:
                raise
        has_begun = True
        time.sleep(pause_s)
        pause_s = min(_LONGEST_PAUSE_S, pause_s * 2 or 0.1)


def is_break(error: SandpoolError) -> bool:
    """Whether only the way to the server broke, or the server is about to restart: what was begun goes on."""
    return isinstance(error, ConnectionLostError) or error.code == "server_closing"
