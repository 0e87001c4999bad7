"""Machines: what one costs to make, to ask and to keep, beside the same runtime called by hand."""

from __future__ import annotations

import os
from typing import Any

from bench.machines import content, execs, idle, start
from bench.machines.boxes import DRIVERS, Kind
from bench.server import Server
from bench.tables import console
from sandpool import Sandpool


def run(server: Server, *, quick: bool) -> dict[str, Any] | None:
    if os.geteuid() != 0:
        console.print("machines need root, so they are left out\n")
        return None
    with Sandpool(server.url, server.key) as client:
        return {
            "start": start.measure(client, [Kind(driver) for driver in DRIVERS], quick=quick),
            "exec": execs.measure(client, quick=quick),
            "content": content.measure(client, (64 << 20) if quick else (1 << 30), rounds=1 if quick else 3),
            "idle": idle.measure(client, server, count=8 if quick else 100),
        }


def run_large(server: Server, *, quick: bool) -> dict[str, Any] | None:
    """What takes minutes and a network: the image `python` is built first, and the file has 10 GiB."""
    if os.geteuid() != 0:
        console.print("machines need root, so they are left out\n")
        return None
    with Sandpool(server.url, server.key) as client:
        client.images.build("python")
        return {
            "start": start.measure(client, [Kind(driver, "python") for driver in DRIVERS], quick=quick),
            "content": content.measure(client, (1 << 30) if quick else (10 << 30), rounds=1),
        }
