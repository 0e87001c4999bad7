"""From `new` to the end of the first exec, warm and cold, beside the runtime alone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.machines.boxes import Kind, create
from bench.machines.by_hand import OwnContainer, own_container
from bench.machines.report import figures, milliseconds
from bench.measure import Samples
from bench.tables import show
from sandpool import Sandpool


def measure(client: Sandpool, kinds: list[Kind], *, quick: bool) -> dict[str, Any]:
    """Ours and the runtime take turns; ours has its network. Cold is with nothing in the kernel's cache of files."""
    results, rows = {}, []
    for kind in kinds:
        first = seconds_to_first_exec(client, kind)
        warm = [(seconds_to_first_exec(client, kind), seconds_by_hand(kind.driver)) for _ in range(3 if quick else 20)]
        cold = [seconds_when_cold(client, kind) for _ in range(1 if quick else 5)]
        ours, theirs, ours_cold = samples(one for one, _ in warm), samples(one for _, one in warm), samples(cold)
        ratio = 1 / ours.times(theirs)
        rows.append([str(kind), f"{first * 1e3:.0f}", *milliseconds(ours, ours_cold, theirs), f"{ratio:.2f}x"])
        results[str(kind)] = {
            "first_ms": first * 1e3,
            "warm": figures(ours),
            "cold": figures(ours_cold),
            "runtime_alone": figures(theirs),
            "ours_takes": ratio,
        }
    columns = ["", "first ms", "warm p50, p99 ms", "cold p50, p99 ms", "runtime alone p50, p99 ms", "ours takes"]
    note = (
        "first: the first machine of this driver and image on the server, which tries the driver before; "
        "runtime alone: `run --detach`, then `exec`, without network, disk and limits"
    )
    show("From new to the end of the first exec", columns, rows, note)
    return results


def seconds_to_first_exec(client: Sandpool, kind: Kind) -> float:
    began = time.perf_counter()
    machine = create(client, kind)
    try:
        client.machines.exec(machine, ["true"]).check()
        return time.perf_counter() - began
    finally:
        client.machines.delete(machine)


def seconds_when_cold(client: Sandpool, kind: Kind) -> float:
    Path("/proc/sys/vm/drop_caches").write_text("3\n")
    return seconds_to_first_exec(client, kind)


def seconds_by_hand(driver: str) -> float:
    with own_container(driver) as container:
        return seconds_of(container)


def seconds_of(container: OwnContainer) -> float:
    began = time.perf_counter()
    try:
        container.start_and_exec()
        return time.perf_counter() - began
    finally:
        container.remove()


def samples(durations: Any) -> Samples:
    """Each a round of its own, for they were taken in turns."""
    return Samples([np.asarray([one]) for one in durations])
