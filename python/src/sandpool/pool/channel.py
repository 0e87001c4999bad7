"""One batch at a time: numbers, repeats after a broken connection, and replies decoded."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sandpool.discovery import ServerAddress
from sandpool.errors import (
    ConnectionLostError,
    PoolBusyError,
    PoolSequenceError,
    ReplyError,
    SandpoolError,
    ServerFailedError,
    ServerTimeoutError,
    error_from_reply,
)
from sandpool.transport.chunks import BrokenConnectionError
from sandpool.transport.connection import Bytes, Connection, Reply
from sandpool.transport.server import no_server
from sandpool.values.decode import decode_json
from sandpool.wire.message import CONTENT_TYPE, Message, MessageReader

_PAUSES_S = (0.0, 0.05, 0.2, 0.5, 1.0)
_LONGEST_PAUSE_S = 1.0
_JSON = "application/json"

# Where an operation's request goes if not to its own name, and what its reply is if not a batch.
_PLACES = {"save": "states"}
_REPLIES = {"save": _JSON}

T = TypeVar("T")
Encode = Callable[[int, str], "list[Bytes]"]


class _Request:
    """A numbered request, kept until it is known whether the pool has executed it."""

    def __init__(
        self, operation: str, head: bytes, body: list[Bytes], sequence: int, timeout_s: float, absorb: Callable[[Message], Any]
    ) -> None:
        self.operation = operation
        self.head = head
        self.body = body
        self.sequence = sequence
        self.timeout_s = timeout_s
        self.absorb = absorb
        self.was_sent = False


class BatchChannel:
    """Sends a pool's batches, each with the next number.

    `guard` is called with the operation before a batch is sent and may refuse it.

    A connection that broke is opened again and the same request sent with the same number, for which the pool returns the reply
    it has kept, so nothing is executed twice. A request whose fate is unknown, after an interrupt say, is settled the same way
    before the next one is sent.
    """

    def __init__(self, address: ServerAddress, pool_id: str, next_sequence: int, local_socket: str | None = None) -> None:
        self._address = address
        self._connection = Connection(address, local_socket)
        self._next = next_sequence
        self._client = secrets.token_hex(8)
        self._unsettled: _Request | None = None
        self.guard: Callable[[str], None] = lambda _: None
        self._lock = threading.Lock()
        self._reader = MessageReader()
        self._prefix = f"{address.path}/v1/pools/{pool_id}/"
        self._headers = f" HTTP/1.1\r\nHost: {address.authority}\r\nAuthorization: Bearer {address.key}\r\n"
        self._heads: dict[tuple[str, str], bytes] = {}

    def exchange(self, operation: str, content_type: str, encode: Encode, absorb: Callable[[Message], T], timeout_s: float) -> T:
        """Send one batch and return what `absorb` makes of its reply.

        Args:
            operation: `step`, `reset`, `call`, `fork`, `restore` or `save`.
            content_type: media type of the body.
            encode: makes the body's parts for a batch number and the name of this client.
            absorb: takes the reply in; called also for a reply that was interrupted, before the next batch is sent.
            timeout_s: longest time the pool may take.

        Raises:
            PoolBusyError: another thread, or another client, uses the pool now. Nothing was sent, or nothing was executed.
        """
        if self._lock.locked():
            raise PoolBusyError(
                "The pool is handling a batch of another thread; expected one batch at a time.",
                hint="Wait for the other call, or use a pool for each thread.",
            )
        # Only `with` lets no interrupt in between taking the lock and being sure to release it.
        with self._lock:
            self.guard(operation)
            if self._unsettled is not None:
                self._settle(self._unsettled)
            # A forked process is a client of its own: what it sends must not be taken for a repeat of what its parent sent.
            body = encode(self._next, f"{self._client}-{os.getpid()}")
            head = self._head(operation, content_type, sum(map(len, body)))
            request = _Request(operation, head, body, self._next, timeout_s, absorb)
            self._unsettled = request
            return self._take(request, self._send(request))  # type: ignore[no-any-return]

    def settle(self) -> None:
        """Find out what became of an interrupted batch and take its reply in; nothing, if there is none."""
        with self._lock:
            if self._unsettled is not None:
                self._settle(self._unsettled)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _head(self, operation: str, content_type: str, length_bytes: int) -> bytes:
        start = self._heads.get((operation, content_type))
        if start is None:
            place, accept = _PLACES.get(operation, operation), _REPLIES.get(operation, CONTENT_TYPE)
            head = f"POST {self._prefix}{place}{self._headers}Accept: {accept}\r\nContent-Type: {content_type}\r\nContent-Length: "
            start = head.encode("latin-1")
            self._heads[operation, content_type] = start
        return b"%b%d\r\n\r\n" % (start, length_bytes)

    def _settle(self, request: _Request) -> None:
        try:
            self._take(request, self._send(request, repeated=True))
        except (ConnectionLostError, ServerTimeoutError, PoolBusyError):
            raise
        except SandpoolError:
            self._unsettled = None

    def _take(self, request: _Request, reply: Reply) -> Any:
        """Read a reply and take it in; only then is the request settled, for an interrupt in between must not lose it."""
        try:
            result = request.absorb(self._read(request, reply))
        except Exception:
            self._settled(request.sequence + 1)
            raise
        self._settled(request.sequence + 1)
        return result

    def _send(self, request: _Request, *, repeated: bool = False) -> Reply:
        """Send until there is a reply; raises with the request settled, unless its fate is unknown."""
        until = time.monotonic() + request.timeout_s
        pause_s = 0.02
        while True:
            reply, sent_before = self._deliver(request)
            repeated = repeated or sent_before
            if reply.status < 300:
                return reply
            error = _error_of(reply)
            if not (isinstance(error, PoolBusyError) and repeated and time.monotonic() < until):
                break
            # What keeps the pool busy is our own batch, sent over the connection that broke.
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        told = error.details.get("expected" if isinstance(error, PoolSequenceError) else "next_seq")
        if isinstance(told, int):
            self._settled(told)
        elif not isinstance(error, ServerFailedError) and not (isinstance(error, PoolBusyError) and repeated):
            self._settled(request.sequence)
        raise error

    def _deliver(self, request: _Request) -> tuple[Reply, bool]:
        broken: OSError | None = None
        for pause_s in _PAUSES_S:
            if broken is not None:
                time.sleep(pause_s)
            try:
                return self._connection.exchange(request.head, request.body, request.timeout_s), request.was_sent
            except TimeoutError as error:
                request.was_sent = True
                raise self._silent(request) from error
            except BrokenConnectionError as error:
                request.was_sent = True
                broken = error
            except OSError as error:
                broken = error
            except BaseException:
                request.was_sent = True
                raise
        if not request.was_sent:
            self._unsettled = None
        if isinstance(broken, BrokenConnectionError):
            raise ConnectionLostError(
                f"The connection to {self._address.url} broke {len(_PAUSES_S)} times for the same batch: {broken}.",
                hint="Is a proxy between that limits sizes or times? The server's log says what it saw.",
            ) from broken
        raise no_server(self._address, broken) from broken

    def _silent(self, request: _Request) -> ServerTimeoutError:
        return ServerTimeoutError(
            f"The server {self._address.url} did not answer within {request.timeout_s:.0f} s, the most this batch may take.",
            hint="Is its machine overloaded or stopped? The next call first finds out what became of this one.",
        )

    def _settled(self, next_sequence: int) -> None:
        self._next = next_sequence
        self._unsettled = None

    def _read(self, request: _Request, reply: Reply) -> Message:
        expected = _REPLIES.get(request.operation, CONTENT_TYPE)
        if reply.content_type != expected:
            raise ReplyError(f"The server answered a {request.operation} with {reply.content_type!r}; expected {expected}.")
        if expected == _JSON:
            return _read_json(reply)
        return self._reader.read(reply.body)


def _read_json(reply: Reply) -> Message:
    text = reply.body.tobytes()
    try:
        members = decode_json(text)
    except ValueError as error:
        raise ReplyError(f"The server answered with what is not JSON: {text[:100]!r}.") from error
    if not isinstance(members, dict):
        raise ReplyError(f"The server answered with {text[:100]!r}; expected a JSON object.")
    return Message(members, [])


def _error_of(reply: Reply) -> SandpoolError:
    text = reply.body.tobytes()
    try:
        return error_from_reply(reply.status, decode_json(text))
    except ValueError:
        return error_from_reply(reply.status, text[:200].decode("utf-8", "replace"))
