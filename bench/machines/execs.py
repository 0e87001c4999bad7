"""`true` through the server against the runtime's own exec in the same container: one after another, and 64 at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bench.machines.boxes import DRIVERS, Kind, box
from bench.machines.by_hand import RuntimeOfMachine
from bench.machines.report import figures, milliseconds
from bench.measure import Samples, alternate
from bench.tables import show
from sandpool import Sandpool

AT_ONCE = 64


def measure(client: Sandpool, *, quick: bool) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for driver in DRIVERS:
        with box(client, Kind(driver)) as machine:
            by_hand = RuntimeOfMachine(machine)
            calls = {
                "Sandpool": lambda machine=machine: client.machines.exec(machine, ["/usr/bin/true"]).check(),
                "by hand": lambda by_hand=by_hand: by_hand.exec("/usr/bin/true"),
            }
            rounds = 2 if quick else 5
            single = alternate(calls, rounds=rounds, seconds=1.0 if quick else 3.0)
            results[driver] = {"one": compared(single), f"{AT_ONCE} at once": compared_at_once(calls, rounds)}
    show_results(results)
    return results


def compared(samples: dict[str, Samples]) -> dict[str, Any]:
    ours, theirs = samples["Sandpool"], samples["by hand"]
    return {"Sandpool": figures(ours), "by_hand": figures(theirs), "ours_is": ours.times(theirs), "cells": milliseconds(ours, theirs)}


def compared_at_once(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, Any]:
    """Each call's own duration, and the seconds until the last of them has ended."""
    samples = {name: Samples() for name in calls}
    whole: dict[str, list[float]] = {name: [] for name in calls}
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for _ in range(rounds):
            for name, call in calls.items():
                began = time.perf_counter()
                samples[name].add(list(threads.map(seconds_of, [call] * AT_ONCE)))
                whole[name].append(time.perf_counter() - began)
    ours, theirs = (float(np.median(whole[name])) for name in calls)
    return {**compared(samples), "all_s": {"Sandpool": ours, "by_hand": theirs}, "ours_is": theirs / ours}


def seconds_of(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def show_results(results: dict[str, Any]) -> None:
    rows = []
    for driver, tables in results.items():
        for name, one in tables.items():
            whole = one.get("all_s")
            seconds = f"{whole['Sandpool']:.2f}, {whole['by_hand']:.2f}" if whole else ""
            rows.append([f"{driver}, {name}", *one.pop("cells"), seconds, f"{one['ours_is']:.2f}x"])
    columns = ["", "Sandpool p50, p99 ms", "by hand p50, p99 ms", "all of them s", "Sandpool is"]
    note = "by hand: `runsc exec` or `runc exec` in the machine's own container"
    show("exec of `true`", columns, rows, note)
