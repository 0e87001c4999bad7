"""Processes that die: the source of living copies, the template of all, a saved state."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import sandpool
from branching.conftest import Make
from branching.rehearsal import Rehearsal
from faults.conftest import Marker

DIE = 9
pytestmark = pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")


def rehearse(make: Make, stateful: Path, rows: int = 4) -> Rehearsal:
    rehearsal = Rehearsal(make(stateful, rows), 5, lambda luck: luck.randrange(4))
    rehearsal.step(range(rows))
    return rehearsal


def test_a_source_is_killed_and_its_forks_and_states_live(make: Make, stateful: Path) -> None:
    rehearsal = rehearse(make, stateful)
    rehearsal.fork([(0, 1), (0, 2)])
    rehearsal.save([0])
    result = rehearsal.pool.step([DIE], where=[0])
    assert (result.errors[0]["kind"], result.errors[0]["signal"]) == ("crash", 9)
    rehearsal.step([1, 2, 3])
    rehearsal.fork([(1, 3)])
    rehearsal.restore([(0, 0)])  # the failed row is healed by its own past
    for _ in range(4):
        rehearsal.step(range(4))
    rehearsal.verify(make(stateful, 4))


def test_a_failed_row_cannot_be_copied_and_says_why(make: Make, stateful: Path) -> None:
    rehearsal = rehearse(make, stateful)
    rehearsal.pool.step([DIE], where=[2])
    for refused in (lambda: rehearsal.pool.fork(2, 0), lambda: rehearsal.pool.save(where=[0, 2])):
        with pytest.raises(sandpool.SandpoolError, match="crash") as caught:
            refused()
        assert caught.value.code == "fork_unsupported"
        assert caught.value.details["sources"][0]["row"] == 2
    assert rehearsal.pool.states() == []
    rehearsal.step([0, 1, 3])
    rehearsal.fork([(0, 2)])
    rehearsal.step(range(4))
    rehearsal.verify(make(stateful, 4))


def test_a_state_is_restored_after_its_source_was_reset_hard(make: Make, stateful: Path) -> None:
    rehearsal = rehearse(make, stateful)
    rehearsal.save([0, 1])
    rehearsal.reset([0], hard=True)
    rehearsal.step([0, 1])
    rehearsal.restore([(0, 0), (0, 2), (1, 3)])
    for _ in range(3):
        rehearsal.step(range(4))
    rehearsal.verify(make(stateful, 4))


def test_the_template_is_killed_and_rows_and_states_are_copied_as_before(make: Make, stateful: Path, marker: Marker) -> None:
    rehearsal = rehearse(make, stateful)
    rehearsal.save([0])
    # The uids of a sandbox's rows are above that of its template.
    template = min(marker.processes(), key=uid_of)
    assert sum(uid_of(pid) == uid_of(template) for pid in marker.processes()) == 1
    os.kill(template, signal.SIGKILL)
    for _ in range(3):
        rehearsal.fork([(0, 1), (2, 3)])
        rehearsal.step(range(4))
        rehearsal.restore([(0, 2)])
        rehearsal.step(range(4))
        rehearsal.save([3])
    rehearsal.verify(make(stateful, 4))


def test_a_state_whose_process_was_killed_is_lost_and_says_so(make: Make, stateful: Path, marker: Marker) -> None:
    rehearsal = rehearse(make, stateful)
    before = set(marker.processes())
    (lost,) = rehearsal.pool.save(where=[1])
    (process,) = set(marker.processes()) - before
    rehearsal.save([2])
    os.kill(process, signal.SIGKILL)
    until = time.monotonic() + 10
    while not (gone := [state.id for state in rehearsal.pool.states() if state.lost]) and time.monotonic() < until:
        time.sleep(0.01)
    assert gone == [lost.id]
    with pytest.raises(sandpool.SandpoolError) as caught:
        rehearsal.pool.restore([lost], where=[0])
    assert caught.value.code == "state_lost"
    rehearsal.step(range(4))
    rehearsal.restore([(0, 3)])
    rehearsal.step(range(4))
    rehearsal.pool.drop([lost])
    rehearsal.verify(make(stateful, 4))


def uid_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid
