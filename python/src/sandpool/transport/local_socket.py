"""The server's unix socket, for clients on its own host: a round trip costs half of one over loopback TCP."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandpool.discovery import ServerAddress

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_CONNECT_TIMEOUT_S = 1.0


def local_socket(address: ServerAddress, description: Mapping[str, Any]) -> str | None:
    """Path of the socket in a pool's endpoint, if the server itself is reached over plain HTTP on loopback and it is ours or root's.

    A proxy on the way is never passed by: behind one the endpoint's URL is another than ours. And the socket's name is new at each
    start of a server, so a server behind a forwarded port never names a socket of this host.
    """
    endpoint = description.get("endpoint") or {}
    path = endpoint.get("socket")
    if not isinstance(path, str) or address.scheme != "http" or address.host not in _LOOPBACK or endpoint.get("url") != address.url:
        return None
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return path if stat.S_ISSOCK(status.st_mode) and status.st_uid in (0, os.geteuid()) else None


def connect_locally(path: str | None) -> socket.socket | None:
    """Connect to the socket; None if there is none or nobody listens, for TCP then says what is wrong."""
    if path is None:
        return None
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_CONNECT_TIMEOUT_S)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection
