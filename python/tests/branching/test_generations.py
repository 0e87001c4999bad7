"""Copies of copies."""

from __future__ import annotations

from pathlib import Path

from branching.conftest import Make
from branching.rehearsal import Rehearsal

GENERATIONS = 100


def test_a_hundred_generations_of_forks_lose_nothing(make: Make, stateful: Path) -> None:
    rehearsal = Rehearsal(make(stateful, 2), 1, lambda luck: luck.randrange(4))
    for generation in range(GENERATIONS):
        source, target = generation % 2, (generation + 1) % 2
        rehearsal.fork([(source, target)])
        rehearsal.step([target])
    longest = max(len(end.path()) for end in rehearsal.histories.ends())
    assert longest == GENERATIONS + 1
    rehearsal.verify(make(stateful, 1))


def test_a_hundred_generations_of_states_lose_nothing(make: Make, stateful: Path) -> None:
    rehearsal = Rehearsal(make(stateful, 2), 2, lambda luck: luck.randrange(4))
    for generation in range(GENERATIONS):
        rehearsal.save([generation % 2])
        rehearsal.restore([(len(rehearsal.states) - 1, (generation + 1) % 2)])
        rehearsal.drop(len(rehearsal.states))
        rehearsal.step([(generation + 1) % 2])
    assert max(len(end.path()) for end in rehearsal.histories.ends()) == GENERATIONS + 1
    rehearsal.verify(make(stateful, 1))


def test_a_fork_of_a_fork_goes_on_while_its_sources_step_on(make: Make, stateful: Path) -> None:
    rehearsal = Rehearsal(make(stateful, 4), 3, lambda luck: luck.randrange(4))
    rehearsal.step([0])
    for source in range(3):
        rehearsal.fork([(source, source + 1)])
        rehearsal.step()
        rehearsal.step(range(source + 2))
    for _ in range(5):
        rehearsal.step(range(4))
    rehearsal.verify(make(stateful, 4))


def test_rows_exchange_their_environments(make: Make, stateful: Path) -> None:
    rehearsal = Rehearsal(make(stateful, 3), 4, lambda luck: luck.randrange(4))
    for _ in range(6):
        rehearsal.step(range(3))
        rehearsal.fork([(0, 1), (1, 2), (2, 0)])
    rehearsal.step(range(3))
    # Nothing was copied twice: there are as many histories as rows.
    assert len(rehearsal.histories.ends()) == 3
    rehearsal.verify(make(stateful, 3))
