"""Copies share the memory that none of them wrote to."""

from __future__ import annotations

from pathlib import Path

from branching.conftest import Host, Make, Write
from faults.conftest import Marker

STATES = 200
CACHE_BYTES = 50_000_000  # of the stateful program


def test_two_hundred_states_of_fifty_megabytes_stay_near_one_copy(make: Make, stateful: Path, marker: Marker, host: Host) -> None:
    pool = make(stateful, 1, memory="1GiB")
    pool.step([1])
    one_row = pool.status()["rows"][0]["pss_bytes"]
    assert one_row > CACHE_BYTES
    processes = len(marker.processes())
    states = [pool.save()[0] for _ in range(STATES)]
    assert len(marker.processes()) == processes + STATES
    sizes = [state.pss_bytes for state in pool.states(memory=True)]
    total = sum(sizes) + pool.status()["rows"][0]["pss_bytes"]
    print(f"{STATES} states and their source: {total / 1e6:.0f} MB (PSS); one alone: {one_row / 1e6:.0f} MB")
    # One copy of the cache, and a few megabytes of its own for each interpreter.
    assert total < CACHE_BYTES + STATES * 5_000_000
    assert pool.step([1]).errors == {}
    pool.drop(states)
    assert pool.states() == []
    left = host.things()
    assert len(left["processes"]) == processes


SMALL = """
    from sandpool.env import serve

    class Small:
        def reset(self, seed=None, options=None):
            self.total = 0
            return [0.0]
        def step(self, action):
            self.total += action
            return [float(self.total)], 0.0, False, False, {}

    serve(make=lambda config: Small())
"""


def test_sixty_three_copies_of_a_small_row_fit_its_memory_twice(make: Make, write: Write) -> None:
    rows = 64
    pool = make(write(SMALL), rows, memory="128MiB")
    for total in range(1, 4):
        pool.step([1], where=[0])
        # Until the targets' old processes have ended there are twice as many copies of row 0.
        pool.fork(0, range(1, rows))
        result = pool.step([0] * rows)
        assert (result.obs[:, 0].tolist(), result.errors) == ([total] * rows, {})
    pool.save()
    assert pool.step([0] * rows).errors == {}
