"""Everything but batches: archives, pools, status, logs. Over urllib3, one short request at a time, from any thread."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, TypeAlias
from urllib.parse import quote, urlencode

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, NewConnectionError, ProtocolError, ReadTimeoutError

from sandpool.discovery import ServerAddress
from sandpool.errors import ConnectionLostError, NoServerError, ReplyError, SandpoolError, ServerTimeoutError, error_from_reply
from sandpool.transport.connection import silent_peer_options
from sandpool.values.decode import decode_json

_CONNECT_TIMEOUT_S = 10.0
_REPLY_LIMIT_BYTES = 1 << 30
_PIECE_BYTES = 1 << 16
Query: TypeAlias = "Mapping[str, str] | Sequence[tuple[str, str]]"
_IDEMPOTENT = frozenset({"GET", "HEAD", "DELETE"})


class Server:
    """One server, its key, and a few kept-alive connections to it."""

    def __init__(self, address: ServerAddress, *, kept_connections: int = 4) -> None:
        self.address = address
        self._kept_connections = kept_connections
        self._connections = _connections_to(address, kept_connections)
        self._process_id = os.getpid()
        self._headers = {"Authorization": f"Bearer {address.key}", "User-Agent": "sandpool-python/0.1"}

    def request_json(
        self, method: str, path: tuple[str, ...], *, query: Query | None = None, body: Any = None, timeout_s: float = 60.0
    ) -> Any:
        """Send a request and return its decoded reply; raises the error that the server describes."""
        reply = self.request_bytes(method, path, query=query, body=None if body is None else json.dumps(body).encode(), timeout_s=timeout_s)
        return _decode(reply, 200)

    def request_bytes(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Query | None = None,
        body: bytes | None = None,
        accept: str = "*/*",
        timeout_s: float = 60.0,
    ) -> bytes:
        """Send a request with a JSON body, if any, and return its reply as it is."""
        headers = {"Accept": accept} if body is None else {"Accept": accept, "Content-Type": "application/json"}
        for attempt in (1, 2):
            try:
                reply = self.open(method, path, query=query, headers=headers, body=body, timeout_s=timeout_s)
                with reply:
                    data = self._read(reply)
            except ConnectionLostError:
                # A kept-alive connection that the server closed in the meantime looks like this; these requests may be repeated.
                if attempt == 2 or method not in _IDEMPOTENT:
                    raise
            else:
                return data
        raise AssertionError("unreachable")

    def has_archive(self, sha256: str) -> bool:
        """Whether this owner has uploaded the archive."""
        with self.open("HEAD", ("archives", sha256), raises=False) as reply:
            if reply.status in (200, 204, 404):
                return reply.status != 404
        # A HEAD reply has no body to say why; the same question as a GET of something cheap does.
        self.request_json("GET", ("pools",))
        raise ReplyError(f"The server answered status {reply.status} to the question for an archive; expected 200 or 404.")

    def put_archive(self, sha256: str, data: IO[bytes], size_bytes: int) -> None:
        """Upload an archive; `data` is read from its present position."""
        headers = {"Content-Type": "application/zstd", "Content-Length": str(size_bytes)}
        with self.open("PUT", ("archives", sha256), headers=headers, body=data, timeout_s=600.0) as reply:
            self._read(reply)

    def stream_lines(self, path: tuple[str, ...], body: bytes, silence_s: float) -> Iterator[dict[str, Any]]:
        """Send a POST whose reply is NDJSON and yield its objects as they come; leaving the loop closes the connection."""
        headers = {"Content-Type": "application/json", "Accept": "application/x-ndjson"}
        reply = self.open("POST", path, headers=headers, body=body, timeout_s=silence_s)
        try:
            for line in self.lines(reply):
                yield _decode(line, reply.status)
        finally:
            # Not drained, closed: an unfinished creation is rolled back when its client goes away.
            reply.close()

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.close()

    def open(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        timeout_s: float | None = 60.0,
        raises: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        """Send one request and return its reply unread, for `pieces` or `lines`; close it.

        Args:
            method: of HTTP.
            path: parts of the path below ``/v1``.
            query: parameters of the address.
            headers: beside those of every request.
            body: bytes, a file, or an iterable of bytes.
            timeout_s: longest silence of the server; None for any.
            raises: whether a status of 300 and above is raised as the error that the server describes.
        """
        target = "/".join([f"{self.address.path}/v1", *(quote(part, safe="") for part in path)])
        if self._process_id != os.getpid():
            # A forked process that used its parent's connections would take its parent's replies.
            self._connections, self._process_id = _connections_to(self.address, self._kept_connections), os.getpid()
        try:
            reply = self._connections.urlopen(
                method,
                f"{target}?{urlencode(query)}" if query else target,
                body=body,
                headers={**self._headers, **(headers or {})},
                redirect=False,
                preload_content=False,
                decode_content=False,
                timeout=urllib3.Timeout(connect=_CONNECT_TIMEOUT_S, read=timeout_s),
            )
        except HTTPError as error:
            raise self._translated(error) from error
        if raises and reply.status >= 300:
            data = self._read(reply)
            try:
                payload = decode_json(data)
            except ValueError:
                payload = data[:200].decode("utf-8", "replace")
            raise error_from_reply(reply.status, payload)
        return reply

    def lines(self, reply: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        """Yield the lines of a reply that are not empty, as they come."""
        pending = b""
        for piece in self.pieces(reply):
            pending += piece
            if len(pending) > _REPLY_LIMIT_BYTES:
                raise ReplyError(f"A line of the server's reply is longer than {_REPLY_LIMIT_BYTES} bytes.")
            *lines, pending = pending.split(b"\n")
            yield from filter(None, map(bytes.strip, lines))
        if pending.strip():
            yield pending

    def _read(self, reply: urllib3.BaseHTTPResponse) -> bytes:
        return b"".join(self.pieces(reply))

    def pieces(self, reply: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        """Yield a reply's bytes as they come."""
        try:
            yield from reply.stream(_PIECE_BYTES)
        except HTTPError as error:
            raise self._translated(error) from error

    def _translated(self, error: HTTPError) -> SandpoolError:
        where = f"{self.address.url} (from {self.address.source})"
        if isinstance(error, NewConnectionError | urllib3.exceptions.ConnectTimeoutError | urllib3.exceptions.SSLError):
            return no_server(self.address, error.__cause__ or error)
        if isinstance(error, ReadTimeoutError):
            return ServerTimeoutError(f"The server {where} was silent for too long: {error}.", hint="Is its machine overloaded or stopped?")
        if isinstance(error, ProtocolError):
            return ConnectionLostError(f"The connection to {where} broke: {error}.", hint="Is the server still running? Its log says why.")
        return ConnectionLostError(f"The request to {where} failed: {error}.")


def _connections_to(address: ServerAddress, kept: int) -> urllib3.HTTPConnectionPool:
    kind = urllib3.HTTPSConnectionPool if address.scheme == "https" else urllib3.HTTPConnectionPool
    options = [*HTTPConnection.default_socket_options, *silent_peer_options()]
    return kind(address.host, address.port, maxsize=kept, retries=False, socket_options=options)


def no_server(address: ServerAddress, cause: object) -> NoServerError:
    """Make the error of a server that does not answer."""
    return NoServerError(
        f"No server answers at {address.url} (from {address.source}): {cause}.",
        hint="Start one with `sandpool up`, or set SANDPOOL_URL and SANDPOOL_API_KEY to one that runs.",
        details={"url": address.url},
    )


def _decode(data: bytes, status: int) -> Any:
    try:
        return decode_json(data)
    except ValueError as error:
        raise ReplyError(
            f"The server answered status {status} with what is not JSON: {data[:100]!r}.", hint="Is the URL that of a Sandpool server?"
        ) from error
