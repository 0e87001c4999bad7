"""Several clients of one server, and of one pool."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import sandpool
from branching.conftest import Make
from branching.rehearsal import Rehearsal
from sandpool import RLPool


def test_two_pools_branch_at_once_and_neither_meets_the_other(make: Make, stateful: Path) -> None:
    rehearsals = [Rehearsal(make(stateful, 3, seed=seed), seed, lambda luck: luck.randrange(4)) for seed in (1, 2)]
    failures: list[BaseException] = []

    def run(rehearsal: Rehearsal) -> None:
        try:
            rehearsal.run(30)
        except (AssertionError, sandpool.SandpoolError) as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(rehearsal,)) for rehearsal in rehearsals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for rehearsal in rehearsals:
        rehearsal.verify(make(stateful, 4, seed=int(rehearsal.pool.description["seed"])))


def test_two_clients_of_one_pool_share_its_states_and_never_overlap(make: Make, stateful: Path) -> None:
    rehearsal = Rehearsal(make(stateful, 3), 8, lambda luck: luck.randrange(4))
    rehearsal.step(range(3))
    rehearsal.save([0])
    with RLPool.attach(rehearsal.pool.id) as other:
        (seen,) = other.states()
        assert (seen.id, seen.row, seen.step) == (rehearsal.states[0][0].id, 0, 1)
        other.restore([seen], where=[2])
        rehearsal.rows[2] = rehearsal.states[0][1]
        # The first client's number is out of date: it is told so, and nothing was done.
        with pytest.raises(sandpool.PoolSequenceError):
            rehearsal.pool.fork(1, 0)
        rehearsal.step(range(3))
        outcomes = race([lambda: rehearsal.pool.fork(1, 0), lambda: other.fork(1, 0)])
        done = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
        refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        assert all(isinstance(one, (sandpool.PoolBusyError, sandpool.PoolSequenceError)) for one in refused)
        if done:
            rehearsal.rows[0] = rehearsal.rows[1]
        other.drop([seen])
        assert rehearsal.pool.states() == []
    with pytest.raises(sandpool.SandpoolError) as caught:
        rehearsal.pool.restore([rehearsal.states[0][0]], where=[1])
    assert caught.value.code in ("state_not_found", "pool_sequence")
    with RLPool.attach(rehearsal.pool.id) as latest:
        rehearsal.pool = latest
        rehearsal.step(range(3))
        rehearsal.verify(make(stateful, 3))


def race(calls: list) -> list:
    outcomes: list = []

    def run(call) -> None:
        try:
            outcomes.append(call())
        except sandpool.SandpoolError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_a_state_of_another_pool_is_refused(make: Make, stateful: Path) -> None:
    one, another = make(stateful, 1), make(stateful, 1)
    (state,) = one.save()
    with pytest.raises((ValueError, sandpool.SandpoolError)):
        another.restore([state], where=[0])
    before = np.asarray(one.reset(seed=4))
    assert one.restore([state]).shape == before.shape
