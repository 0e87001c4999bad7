"""Many machines that do nothing: the memory of each, and how long it takes to list them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.machines.boxes import DRIVERS, Kind
from bench.machines.by_hand import RuntimeOfMachine
from bench.machines.report import figures, milliseconds
from bench.measure import Samples, repeat
from bench.server import Server
from bench.tables import show
from bench.topics.memory import pss_bytes
from sandpool import Machine, Sandpool

_DELETES_AT_ONCE = 8


def measure(client: Sandpool, server: Server, *, count: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    rows = []
    for driver in DRIVERS:
        before = pss_bytes(server.process_id)
        began = time.perf_counter()
        with many(client, Kind(driver), count) as machines:
            seconds = (time.perf_counter() - began) / count
            each = sum(memory_of(machine) for machine in machines) / count
            of_server = max(0, pss_bytes(server.process_id) - before) / count
            listing = Samples()
            listing.add(repeat(client.machines.list, 2.0))
        rows.append([driver, f"{seconds:.2f}", f"{each / 1e6:.1f}", f"{of_server / 1e6:.2f}", *milliseconds(listing)])
        results[driver] = {"create_s": seconds, "pss_bytes": each, "server_bytes": of_server, "list": figures(listing)}
    columns = ["", "made in s each", "memory MB each (PSS)", "of the server MB each", "list all p50, p99 ms"]
    show(
        f"{count} idle machines",
        columns,
        rows,
        "memory: the shim and all that is below it; made in one request, as many at once as the host's processors",
    )
    return {"count": count, **results}


@contextlib.contextmanager
def many(client: Sandpool, kind: Kind, count: int) -> Iterator[list[Machine]]:
    fates = client.machines.create("idle", driver=kind.driver, image=kind.image, isolated=True, count=count, progress=False)
    try:
        yield [fate.unwrap() for fate in fates]
    finally:
        with ThreadPoolExecutor(_DELETES_AT_ONCE) as threads:
            list(threads.map(client.machines.delete, [fate.machine for fate in fates if fate.machine is not None]))


def memory_of(machine: Machine) -> int:
    """Proportional set size of the shim and its descendants, which are all that the machine is."""
    shim = json.loads((RuntimeOfMachine(machine).folder / "shim.pid").read_text())["pid"]
    return sum(pss_bytes(pid) for pid in tree(shim))


def tree(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from tree(int(child))
