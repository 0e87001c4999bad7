"""Machines of the bench's server, gone at the end of their block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandpool import Machine, Sandpool

DRIVERS = ("gvisor", "namespace")


@dataclass(frozen=True)
class Kind:
    """What a machine is made of."""

    driver: str
    image: str = "host"

    def __str__(self) -> str:
        return f"{self.driver}, {self.image}"


@contextlib.contextmanager
def box(client: Sandpool, kind: Kind, **options: Any) -> Iterator[Machine]:
    """A machine without a network, unless the options say otherwise."""
    made = create(client, kind, **{"isolated": True, **options})
    try:
        yield made
    finally:
        client.machines.delete(made)


def create(client: Sandpool, kind: Kind, **options: Any) -> Machine:
    return client.machines.create(driver=kind.driver, image=kind.image, progress=False, **options)
