"""Copies of live environments: what they cost, against replaying what led there and against gVisor's checkpoint of the same process."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.contenders import cartpole, rlpool
from bench.gvisor import checkpoints, find_runsc, how_to_get_runsc
from bench.measure import Samples, repeat
from bench.server import ENVIRONMENTS, Server
from bench.tables import console, show
from sandpool import RLPool

PREFIX_STEPS = 200
FORKS = 64
STATES = 200


def run(server: Server, *, quick: bool) -> dict[str, Any]:
    seconds = 1.0 if quick else 4.0
    return {"copies": copies(seconds), "prefix": prefix(seconds), "memory": memory(), "gvisor": gvisor(5 if quick else 20)}


def copies(seconds: float) -> dict[str, Any]:
    """Fork of one row, save and restore of one row, one row to 64, in a pool of CartPole with numpy."""
    with branching_pool(FORKS + 1) as pool:
        targets = np.arange(1, FORKS + 1)
        samples = {
            "fork of one row": measured(lambda: pool.fork(0, 1), seconds),
            "save, then restore": save_and_restore(pool, seconds),
            f"fork of one row to {FORKS}, one request": measured(lambda: pool.fork(0, targets), seconds),
            "hard reset of one row, for comparison": measured(lambda: pool.reset(where=[1], hard=True), seconds),
        }
    targets_of_p50 = dict(zip(samples, ("5 ms", "10 ms", "", "15 ms"), strict=True))
    rows = [[name, *milliseconds(one), targets_of_p50[name]] for name, one in samples.items()]
    show(
        f"Copies of CartPole-v1 with numpy, a pool of {FORKS + 1}",
        ["", "p50 ms", "p99 ms", "target p50"],
        rows,
        "the drop of the state is not counted",
    )
    return {name: figures(one) for name, one in samples.items()}


def prefix(seconds: float) -> dict[str, Any]:
    """To the state after 200 steps: by a restore, by the same steps in the pool, and by the same steps in the trainer's own process."""
    local = cartpole()
    with branching_pool(2) as pool:
        play_prefix(pool)
        (state,) = pool.save(where=[1])
        samples = {
            "restore": measured(lambda: pool.restore([state], where=[1]), seconds),
            f"reset and {PREFIX_STEPS} steps in the pool": measured(lambda: play_prefix(pool), seconds),
            f"reset and {PREFIX_STEPS} steps in the trainer's process": measured(lambda: play_prefix_locally(local), seconds),
        }
    ours = samples["restore"].percentile(50)
    rows = [[name, *milliseconds(one), f"{one.percentile(50) / ours:.1f}x"] for name, one in samples.items()]
    note = "a step of CartPole takes some microseconds, so that replaying it locally is cheap; the restore costs the same after any prefix"
    show("One row to a state 200 steps into its episode", ["", "p50 ms", "p99 ms", "restore is"], rows, note)
    return {name: figures(one) for name, one in samples.items()}


def memory() -> dict[str, Any]:
    """Proportional set size of 200 states of an environment of 50 MB, which share what they have not written to."""
    with RLPool(ENVIRONMENTS / "cache", 1, python=sys.executable, memory="1GiB", progress=False) as pool:
        alone = pool.status()["rows"][0]["pss_bytes"]
        for _ in range(STATES):
            pool.save()
        states = sum(state.pss_bytes for state in pool.states(memory=True))
        together = states + pool.status()["rows"][0]["pss_bytes"]
    rows = [
        ["the environment alone", f"{alone / 1e6:.0f}", ""],
        [f"with {STATES} states of it", f"{together / 1e6:.0f}", f"{together / alone:.1f}x"],
        ["each further state", f"{(together - alone) / STATES / 1e6:.2f}", ""],
        ["copies of their own", f"{alone * (STATES + 1) / 1e6:,.0f}", f"{STATES + 1}x"],
    ]
    show(f"Memory of {STATES} states of a 50 MB environment (PSS)", ["", "MB", "of one"], rows)
    return {"alone_bytes": alone, "together_bytes": together, "states": STATES}


def gvisor(times: int) -> dict[str, Any] | None:
    """Checkpoint and restore by gVisor of a process with the same CartPole."""
    runsc = find_runsc()
    if runsc is None:
        console.print(
            f"no runsc here, so no comparison with gVisor; to get the one this was written for:\n  {how_to_get_runsc()}\n", highlight=False
        )
        return None
    with checkpoints(runsc) as container:
        container.copy_once()
        saves, restores = zip(*(container.copy_once() for _ in range(times)), strict=True)
    durations = {
        "checkpoint, source left running": saves,
        "restore, until its process goes on": restores,
        "both": [save + restore for save, restore in zip(saves, restores, strict=True)],
    }
    samples = {name: Samples([np.asarray(one)]) for name, one in durations.items()}
    show("The same CartPole under gVisor (runsc)", ["", "p50 ms", "p99 ms"], [[name, *milliseconds(one)] for name, one in samples.items()])
    return {name: figures(one) for name, one in samples.items()}


@contextlib.contextmanager
def branching_pool(n: int) -> Iterator[RLPool]:
    """One sandbox, so that any row can be copied to any other."""
    with rlpool(n, shards=1, autoreset=None) as pool:
        yield pool


def save_and_restore(pool: RLPool, seconds: float) -> Samples:
    """Durations without the drop of the state."""
    durations, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        states = pool.save(where=[0])
        pool.restore(states, where=[1])
        durations.append(time.perf_counter() - began)
        pool.drop(states)
    return Samples([np.asarray(durations)])


def play_prefix(pool: RLPool) -> None:
    pool.reset(seed=[None, 0], where=[1])
    for step in range(PREFIX_STEPS):
        pool.step([step % 2], where=[1])


def play_prefix_locally(environment: Any) -> None:
    environment.reset(seed=0)
    for step in range(PREFIX_STEPS):
        environment.unwrapped.step(step % 2)


def measured(call: Callable[[], object], seconds: float) -> Samples:
    samples = Samples()
    samples.add(repeat(call, seconds))
    return samples


def milliseconds(samples: Samples) -> list[str]:
    return [f"{samples.percentile(percent) * 1e3:.2f}" for percent in (50, 99)]


def figures(samples: Samples) -> dict[str, float]:
    return {"p50_ms": samples.percentile(50) * 1e3, "p99_ms": samples.percentile(99) * 1e3}
