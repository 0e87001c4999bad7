"""After drop and close nothing of a copy is on the host."""

from __future__ import annotations

from pathlib import Path

from branching.conftest import Host, Make
from branching.rehearsal import Rehearsal


def test_after_drop_the_host_is_as_before_and_after_close_as_before_the_pool(make: Make, stateful: Path, host: Host) -> None:
    without_pool = host.things()
    rehearsal = Rehearsal(make(stateful, 4), 7, lambda luck: luck.randrange(4))
    pool = rehearsal.pool
    rehearsal.step(range(4))
    fresh = counts(host)
    for _ in range(5):
        rehearsal.save(range(4))
        rehearsal.fork([(0, 1), (2, 3)])
        rehearsal.restore([(0, 2)])
    rehearsal.drop(len(rehearsal.states))
    assert pool.states() == []
    assert counts(host) == fresh
    pool.save()
    rehearsal.fork([(3, 0)])
    pool.close()
    assert host.things() == without_pool


def counts(host: Host) -> dict[str, int]:
    return {kind: len(things) for kind, things in host.things().items()}
