"""Open a pool's stream: one WebSocket over the server's unix socket or TCP."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import quote, urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidStatus
from websockets.typing import Subprotocol

from sandpool.discovery import ServerAddress
from sandpool.errors import ConnectionLostError, SandpoolError, error_from_reply
from sandpool.pool.endpoint import Target
from sandpool.transport.chunks import LIMIT_BYTES
from sandpool.transport.connection import probe_silent_peer
from sandpool.transport.local_socket import connect_locally
from sandpool.transport.server import no_server
from sandpool.values.decode import decode_json

_SUBPROTOCOL = Subprotocol("sandpool.batch")
_OPEN_TIMEOUT_S = 10.0
_CLOSE_TIMEOUT_S = 2.0

RETRIED = (OSError, InvalidHandshake, InvalidMessage, ConnectionClosed, EOFError)
_STATUS_OF_CLOSE = {1009: 413, 4400: 400, 4401: 401, 4404: 404, 4409: 409, 4410: 410}


async def open_stream(target: Target, session: str, received: int) -> ClientConnection:
    """Open the stream of a session that has the results up to `received`.

    Raises:
        SandpoolError: the server refused it.
        OSError, InvalidHandshake: no connection could be made; another try may succeed.
    """
    address, path = target.endpoint
    options: dict[str, Any] = {} if (local := connect_locally(path)) is None else {"sock": _without_waiting(local)}
    try:
        connection = await connect(
            _uri_of(address, target.pool_id, session, received),
            subprotocols=[_SUBPROTOCOL],
            additional_headers={"Authorization": f"Bearer {address.key}"},
            user_agent_header="sandpool-python/0.1",
            compression=None,
            proxy=None,
            open_timeout=_OPEN_TIMEOUT_S,
            close_timeout=_CLOSE_TIMEOUT_S,
            # The kernel finds a peer that is gone, the deadlines one that is silent; a busy trainer answers no pings in time.
            ping_interval=None,
            max_size=LIMIT_BYTES,
            max_queue=None,
            **options,
        )
    except InvalidStatus as error:
        if error.response.status_code >= 500:
            raise
        raise _refusal_of(error) from error
    if local is None:
        probe_silent_peer(connection.transport.get_extra_info("socket"))
    return connection


def explain_closing(closed: ConnectionClosed, payload: object) -> SandpoolError | None:
    """Return the error with which the server ended the stream; None for a connection that only broke or may be opened again."""
    if closed.rcvd is None or closed.rcvd.code not in _STATUS_OF_CLOSE:
        return None
    return error_from_reply(_STATUS_OF_CLOSE[closed.rcvd.code], closed.rcvd.reason if payload is None else payload)


def explain_giving_up(address: ServerAddress, error: Exception, attempts: int) -> SandpoolError:
    """Return the error of a stream that could not be opened."""
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        return no_server(address, error)
    return ConnectionLostError(
        f"The stream to {address.url} broke or could not be opened {attempts} times in a row: {error}.",
        hint="Is a proxy between that knows no WebSockets? The next recv() tries again; what is out is not lost.",
    )


def _uri_of(address: ServerAddress, pool_id: str, session: str, received: int) -> str:
    scheme = "wss" if address.scheme == "https" else "ws"
    query = urlencode({"session": session, "received": received})
    return f"{scheme}://{address.authority}{address.path}/v1/pools/{quote(pool_id, safe='')}/stream?{query}"


def _refusal_of(error: InvalidStatus) -> SandpoolError:
    body = error.response.body or b""
    try:
        return error_from_reply(error.response.status_code, decode_json(bytes(body)))
    except ValueError:
        return error_from_reply(error.response.status_code, bytes(body[:200]).decode("utf-8", "replace"))


def _without_waiting(connected: socket.socket) -> socket.socket:
    connected.setblocking(False)
    return connected
