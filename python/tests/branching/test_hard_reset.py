"""A hard reset is as if newly created: nothing of any kind is left. A soft reset, the control, leaves everything."""

from __future__ import annotations

from typing import Any

import pytest

from branching.conftest import PROGRAMS, Make
from faults.conftest import Marker
from sandpool import RLPool

FOLDER = PROGRAMS / "leftovers"


@pytest.fixture
def pool(make: Make) -> RLPool:
    return make(FOLDER, 2)


def look(pool: RLPool) -> dict[str, Any]:
    result = pool.call("look", where=[0])
    assert result.errors == {}
    return dict(result[0])


def test_nothing_of_any_kind_survives_a_hard_reset(pool: RLPool, marker: Marker) -> None:
    fresh, processes = look(pool), len(marker.processes())
    for kind in fresh:
        assert pool.call("leave", (kind,), where=[0]).errors == {}, kind
    pool.reset(where=[0])
    left = look(pool)
    assert [kind for kind in fresh if left[kind] == fresh[kind]] == [], "a soft reset was expected to leave these"
    assert len(marker.processes()) == processes + 2  # a child and a daemon
    pool.reset(where=[0], hard=True)
    assert look(pool) == fresh
    assert len(marker.processes()) == processes


def test_a_neighbour_keeps_what_it_left(pool: RLPool) -> None:
    pool.call("leave", ("file in /tmp",))
    pool.reset(where=[0], hard=True)
    assert [look["file in /tmp"] for look in pool.call("look")] == [[], ["left"]]
