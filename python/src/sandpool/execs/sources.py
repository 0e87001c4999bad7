"""Where the frames of a running program come from: a streamed reply, or a WebSocket that takes input too."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Generator, Mapping
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from sandpool.errors import ConnectionLostError, InvalidValueError, SandpoolError, error_from_reply
from sandpool.execs.frames import CONTROL, Frame, check_frame, read_frames
from sandpool.machines.description import MachineRef, path_of, reference_of
from sandpool.transport.calls import Calls, encode
from sandpool.transport.server import no_server

_OPEN_TIMEOUT_S = 30.0
_CLOSE_TIMEOUT_S = 2.0
_SIGN_OF_LIFE_S = 20.0
_PIECE_BYTES = 64 << 10
_LIMIT_BYTES = 16 << 20


class FrameSource(Protocol):
    """Frames of one program: the first is a control message with its id, the last one with its end.

    Attributes:
        joins: whether `frames` may be called again after the way broke off, and then starts with what was kept of the program.
    """

    joins: bool

    def frames(self) -> Generator[Frame, None, None]:
        """Yield frames; raises ConnectionLostError where the way broke off."""

    def send(self, kind: int, data: bytes) -> None:
        """Send input or a control message."""

    def close(self) -> None:
        """Let go of the program."""


class StreamedReply:
    """The body of ``POST …/exec`` with ``stream``. Input is what the request had."""

    joins = True

    def __init__(self, calls: Calls, machine: MachineRef, request: Mapping[str, Any]) -> None:
        self._calls, self._path, self._body = calls, path_of(machine, "exec"), encode(request)
        # With it the same request joins what it began.
        self._headers = {"Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex}

    def frames(self) -> Generator[Frame, None, None]:
        """Yield frames as they come."""
        with self._calls.open("POST", self._path, headers=self._headers, body=self._body, timeout_s=None) as reply:
            yield from read_frames(self._calls.server.pieces(reply))

    def send(self, kind: int, data: bytes) -> None:
        """Refuse: this way leads out only."""
        raise InvalidValueError(
            "This program's standard input was not left open; expected stream_exec(…, stdin='open').",
            hint="What is known beforehand is stdin=bytes.",
        )

    def close(self) -> None:
        """Do nothing: the connection goes with the frames that nobody reads any more."""


class AttachedSocket:
    """A WebSocket: ``…/exec/attach`` with a program to start, or ``…/exec/{exec}/attach``.

    It joins nothing: what of the standard input had arrived when it broke cannot be known.
    """

    joins = False

    def __init__(
        self, calls: Calls, machine: MachineRef, *, start: Mapping[str, Any] | None = None, exec_id: str | None = None, since: str = "start"
    ) -> None:
        self._calls, self._machine = calls, machine
        self._open = contextlib.ExitStack()
        self._socket = self._open.enter_context(_connect(calls, machine, exec_id, since))
        if start is not None:
            try:
                self.send(CONTROL, json.dumps({"start": dict(start)}).encode())
            except BaseException:
                self.close()
                raise

    def frames(self) -> Generator[Frame, None, None]:
        """Yield frames as they come. While nobody asks for the next one the program waits."""
        try:
            while True:
                message = self._socket.recv(decode=False)
                if not message:
                    continue
                check_frame(message[0], len(message) - 1)
                yield Frame(message[0], bytes(message[1:]))
        except ConnectionClosed as closed:
            raise _explain(closed) from closed

    def send(self, kind: int, data: bytes) -> None:
        """Send input or a control message; waits while the program does not read."""
        view = memoryview(data)
        try:
            for start in range(0, max(len(view), 1), _PIECE_BYTES):
                self._socket.send(bytes([kind]) + bytes(view[start : start + _PIECE_BYTES]))
                if kind == CONTROL:
                    return
        except ConnectionClosed as closed:
            raise _explain(closed) from closed

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._open.close()


def _connect(calls: Calls, machine: MachineRef, exec_id: str | None, since: str) -> ClientConnection:
    address = calls.server.address
    parts = ["machines", reference_of(machine), "exec", *([] if exec_id is None else [exec_id]), "attach"]
    path = "/".join(quote(part, safe="") for part in parts)
    query = "" if exec_id is None else "?" + urlencode({"from": since})
    scheme = "wss" if address.scheme == "https" else "ws"
    try:
        return connect(
            f"{scheme}://{address.authority}{address.path}/v1/{path}{query}",
            additional_headers={"Authorization": f"Bearer {address.key}"},
            user_agent_header="sandpool-python/0.1",
            compression=None,
            proxy=None,
            open_timeout=_OPEN_TIMEOUT_S,
            close_timeout=_CLOSE_TIMEOUT_S,
            # Signs of life for the server. Their answers wait behind output that nobody reads, so none is waited for.
            ping_interval=_SIGN_OF_LIFE_S,
            ping_timeout=None,
            max_size=_LIMIT_BYTES,
        )
    except InvalidStatus as error:
        raise _refusal_of(error) from error
    except (InvalidHandshake, InvalidMessage, EOFError) as error:
        raise ConnectionLostError(
            f"No WebSocket could be opened to {address.url}: {error}.", hint="Is a proxy between that knows none?"
        ) from error
    except OSError as error:
        raise no_server(address, error) from error


def _refusal_of(error: InvalidStatus) -> SandpoolError:
    body = bytes(error.response.body or b"")
    try:
        payload: Any = json.loads(body)
    except ValueError:
        payload = body[:200].decode("utf-8", "replace")
    return error_from_reply(error.response.status_code, payload)


def _explain(closed: ConnectionClosed) -> SandpoolError:
    code = None if closed.rcvd is None else closed.rcvd.code
    return ConnectionLostError(
        f"The connection to the program broke off: {'the server stops' if code == 1001 else closed}.",
        hint="It may still run: `attach` leads to it again.",
        details={"close_code": code},
    )
