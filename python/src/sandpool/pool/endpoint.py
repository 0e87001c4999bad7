"""Where the batches and the stream of a pool go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sandpool.discovery import ServerAddress, parse_url
from sandpool.transport.local_socket import local_socket


class Endpoint(NamedTuple):
    """An address with the key for it, and the path of the unix socket that leads to the same server, if there is one."""

    address: ServerAddress
    local_socket: str | None


class Target(NamedTuple):
    """A pool, and where it is."""

    endpoint: Endpoint
    pool_id: str


def endpoint_of(server: ServerAddress, description: Mapping[str, Any]) -> Endpoint:
    """Return the pool's own endpoint if it has a token of its own, for our key is only for the server's URL; else the server."""
    endpoint = description.get("endpoint") or {}
    address = parse_url(endpoint["url"], endpoint["token"], "the pool's endpoint") if endpoint.get("token") else server
    return Endpoint(address, local_socket(server, description))
