"""Ports that listen inside machines, and addresses that lead to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from sandpool.errors import InvalidTypeError, InvalidValueError, ReplyError
from sandpool.machines.description import Machine, MachineRef, path_of
from sandpool.pool.options import check_seconds
from sandpool.transport.calls import Calls
from sandpool.transport.described import Described

_LARGEST_PORT = 65_535


@dataclass(frozen=True, kw_only=True)
class PortEntry(Described):
    """A port of a machine.

    Attributes:
        port: its number.
        pid: of the program inside that listens, or None where it cannot be known, or nobody does.
        public: whether it answers without a key or a link.
        url: for browsers and curl, ``http://PORT-NAME.localhost:7070/``; the C library does not resolve such names.
        path_url: for programs, which send the key as ``Authorization: Bearer …`` or ``X-Sandpool-Key``.
    """

    port: int
    pid: int | None = None
    public: bool = False
    url: str = ""
    path_url: str = ""


@dataclass(frozen=True, kw_only=True)
class PortLink(Described):
    """An address that needs no key, until `expires_at`."""

    url: str
    expires_at: str


class Ports:
    """Calls about the ports of machines."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def ports(self, machine: MachineRef) -> list[PortEntry]:
        """Return the TCP ports on which something inside listens, and those that were made public."""
        reply = self.calls.json("GET", path_of(machine, "ports"))
        if not isinstance(reply, dict) or not isinstance(reply.get("ports"), list):
            raise ReplyError(f"The server answered with {reply!r:.100}; expected a list of ports.")
        return [PortEntry.of_wire(entry) for entry in reply["ports"]]

    def url(self, machine: MachineRef, port: int, *, form: Literal["path", "host"] = "path") -> str:
        """Return the address of a port, whether or not something listens yet.

        Args:
            machine: name, id, or `Machine`.
            port: inside.
            form: ``"path"`` for programs, which send the key with each request; ``"host"`` for browsers and curl,
                ``http://PORT-NAME.localhost…``, where a public port or a `link` needs no key.
        """
        check_port(port)
        found = machine if isinstance(machine, Machine) else Machine.of_wire(self.calls.json("GET", path_of(machine)))
        if form not in ("path", "host"):
            raise InvalidValueError(f"form={form!r:.40} was given; expected 'path' or 'host'.")
        base = self.calls.server.address
        if form == "path":
            return f"{base.url}/v1/machines/{found.id}/ports/{port}/"
        outer = urlsplit(base.url).port
        return f"{base.scheme}://{port}-{found.name}.localhost{'' if outer is None else f':{outer}'}/"

    def link(self, machine: MachineRef, port: int, expires: float = 3600.0) -> PortLink:
        """Make a signed address of a port that needs no key.

        Args:
            machine: name, id, or `Machine`.
            port: inside.
            expires: seconds for which it is good, 24 hours at most.
        """
        check_port(port)
        check_seconds("expires", expires)
        return PortLink.of_wire(self.calls.json("POST", path_of(machine, "ports", str(port), "link"), body={"expires": expires}))

    def revoke_links(self, machine: MachineRef, port: int) -> None:
        """Make all links of the machine worthless, those of its other ports too."""
        check_port(port)
        self.calls.json("DELETE", path_of(machine, "ports", str(port), "link"))

    def set_public(self, machine: MachineRef, port: int, public: bool = True) -> PortEntry:
        """Let everybody who reaches the server reach a port, or, with False, only who has a key or a link."""
        check_port(port)
        return PortEntry.of_wire(self.calls.json("PUT", path_of(machine, "ports", str(port)), body={"public": bool(public)}))


def check_port(port: object) -> None:
    """Check the number of a port."""
    if isinstance(port, bool) or not isinstance(port, int):
        raise InvalidTypeError(f"port={port!r:.40} was given; expected a whole number.")
    if not 1 <= port <= _LARGEST_PORT:
        raise InvalidValueError(f"port={port} was given; expected 1..{_LARGEST_PORT}.")
