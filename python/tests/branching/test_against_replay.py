"""A hundred random operations on each environment; every answer is what a replay from scratch gives.

SANDPOOL_TEST_SEED chooses other operations; a failure shows the seed and the operations.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from branching.conftest import Make
from branching.rehearsal import Rehearsal

SEED = int(os.environ.get("SANDPOOL_TEST_SEED", "20"))
EXAMPLES = Path(__file__).parents[3] / "examples"
ROWS, REPLAYED_ROWS = 6, 8

COMMANDS = [
    "cat *.py",
    "echo line >> notes; cat notes",
    "wc -c < notes; mkdir -p sub; ls",
    "sed -i 's|size)]|size )]|' *.py; cat *.py",
    "cat *.py > copy; echo a > /tmp/private; ls /tmp/private copy",
    "test -e /tmp/private && echo there",
]


def without_times_and_names(seen: Any) -> Any:
    """unittest reports seconds, and the folder of the tests has a random name."""
    if isinstance(seen, dict):
        return {key: without_times_and_names(value) for key, value in seen.items()}
    if isinstance(seen, str):
        return re.sub(r"in \d+\.\d+s|/tmp/tmp\w+", "", seen)
    return seen


class World(NamedTuple):
    folder: Path
    draw_action: Callable[[random.Random], Any]
    comparable: Callable[[Any], Any] = lambda seen: seen
    options: Mapping[str, Any] = MappingProxyType({})
    operations: int = 100


def among(*actions: Any) -> Callable[[random.Random], Any]:
    return lambda luck: luck.choice(actions)


STATEFUL = World(Path(__file__).parent / "programs" / "stateful", among(0, 1, 2, 3))
CARTPOLE = World(EXAMPLES / "cartpole", among(0, 1))
SOKOBAN = World(EXAMPLES / "sokoban", among(0, 1, 2, 3))
WORLDS = {
    "stateful": STATEFUL,
    "stateful, continue": STATEFUL._replace(options={"seeds": "continue"}, operations=50),
    "stateful, next_step": STATEFUL._replace(options={"autoreset": "next_step"}, operations=50),
    "stateful, same_step": STATEFUL._replace(options={"autoreset": "same_step"}, operations=50),
    "cartpole": CARTPOLE,
    "cartpole, packed": CARTPOLE._replace(options={"envs_per_process": 3, "seeds": "continue"}),
    "sokoban": SOKOBAN,
    "sokoban, packed": SOKOBAN._replace(options={"envs_per_process": 3}),
    "counter": World(EXAMPLES / "counter", among(-1, 0, 1)),
    "maze": World(EXAMPLES / "maze", among(0, 1, 2, 3)),
    "shell_task": World(EXAMPLES / "shell_task", among(*COMMANDS), without_times_and_names),
}


@pytest.mark.parametrize("name", WORLDS)
def test_rows_are_what_a_replay_from_scratch_gives(name: str, make: Make) -> None:
    world = WORLDS[name]
    pool = make(world.folder, ROWS, **world.options)
    rehearsal = Rehearsal(pool, SEED, world.draw_action, world.comparable)
    try:
        rehearsal.run(world.operations)
        replayed = make(world.folder, REPLAYED_ROWS, **{**world.options, "autoreset": None})
        compared = rehearsal.verify(replayed)
    except BaseException:
        print(f"seed {SEED}; operations:\n{rehearsal!r}")
        raise
    assert compared >= len(rehearsal.histories.moments)
