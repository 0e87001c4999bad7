"""What a machine is, as the server describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sandpool.errors import InvalidTypeError, InvalidValueError, SandpoolError
from sandpool.transport.described import Described


@dataclass(frozen=True, kw_only=True)
class MachineSize(Described):
    """What a machine has: virtual processors, bytes of memory, bytes of its writable disk."""

    vcpu: float
    memory: int
    disk: int


@dataclass(frozen=True, kw_only=True)
class Machine(Described):
    """A machine, as it was when the server described it.

    Attributes:
        id: never used again; links and stored references should use it.
        name: unique among the owner's machines.
        state: `creating`, `running`, `stopping`, `stopped`, `starting`, `deleting` or `failed`.
        reason: why it is stopped: `crashed`, `out_of_memory`, `host_restarted`, `stopped`; else None.
        image: name of its image.
        driver: `gvisor` or `namespace`.
        size: the figures it has, capped to the host.
        network: `open`, `isolated` or `egress`.
        egress: the only hosts it may reach, or None.
        labels: the caller's own names and texts.
        environment: names of its variables.
        created_at: ISO 8601, UTC, as all times.
        lifetime: seconds after which it is deleted, or None.
        expires_at: when it will be deleted, by lifetime or lease, or None.
        lease: seconds for which it lives without a renewal, or None.
        disk_saved_at: from when the disk is that it would have after a crash, or None.
        urls: addresses of its public ports, by port.
        memory_bytes: in use, or None where it cannot be known.
        warnings: what the server wants to be known.
    """

    id: str
    name: str
    state: str
    image: str
    driver: str
    size: MachineSize
    network: str = "open"
    reason: str | None = None
    egress: list[str] | None = None
    labels: dict[str, str] = field(default_factory=dict)
    environment: list[str] = field(default_factory=list)
    created_at: str = ""
    lifetime: float | None = None
    expires_at: str | None = None
    lease: float | None = None
    disk_saved_at: str | None = None
    disk_save_interval: float | None = None
    urls: dict[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of_wire(cls, members: object) -> Machine:
        """Make one of a decoded reply."""
        if isinstance(members, dict) and "size" in members:
            described = super().of_wire({**members, "size": MachineSize.of_wire(members["size"])})
            object.__setattr__(described, "wire", members)
            return described
        return super().of_wire(members)


@dataclass(frozen=True)
class MachineFate:
    """What became of one machine of several: the machine, or the error, never both."""

    machine: Machine | None
    error: SandpoolError | None

    def unwrap(self) -> Machine:
        """Return the machine; raises the error instead where there is one."""
        if self.machine is None:
            raise self.error or SandpoolError("The server told neither a machine nor an error.", code="protocol_violation")
        return self.machine


@dataclass(frozen=True)
class Quota:
    """How many machines the owner has, and may have."""

    used: int
    limit: int


class MachineList(list[Machine]):
    """Machines; `quota` says how many the owner has and may have."""

    def __init__(self, machines: list[Machine], quota: Quota) -> None:
        super().__init__(machines)
        self.quota = quota


MachineRef: TypeAlias = "str | Machine"


def reference_of(machine: object) -> str:
    """Return what names a machine in an address: the id of a `Machine` or of what has an `id`, or the id or name given."""
    named = machine if isinstance(machine, str) else getattr(machine, "id", None)
    if not isinstance(named, str):
        raise InvalidTypeError(f"A machine was given as {type(machine).__name__}; expected its name, its id, or a Machine.")
    if not named or named in (".", ".."):
        raise InvalidValueError(f"A machine was given as {named!r}; expected its name or id.")
    return named


def path_of(machine: object, *rest: str) -> tuple[str, ...]:
    """Return the parts of a machine's address, and of what is below it."""
    return ("machines", reference_of(machine), *rest)


def checked_mapping(name: str, value: object) -> dict[str, str]:
    """Return a mapping of text to text as a dict; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) and isinstance(text, str) for key, text in value.items()):
        raise InvalidTypeError(f"{name} is of type {type(value).__name__}, or holds what is no text; expected a dict of text to text.")
    return dict(value)


def plain_size(size: Any) -> Any:
    """Return a size as it travels: a name, or its figures."""
    if isinstance(size, MachineSize):
        return {"vcpu": size.vcpu, "memory": size.memory, "disk": size.disk}
    if isinstance(size, str):
        return size
    if isinstance(size, Mapping) and set(size) <= {"vcpu", "memory", "disk"}:
        return dict(size)
    raise InvalidTypeError(
        f"size={size!r:.80} was given; expected 'small', 'medium', 'large', or a dict with vcpu, memory and disk.",
        hint="Memory and disk are bytes, or text such as '2GiB'.",
    )
