"""The global generators are seeded once in each process, before its first reset, and forks never share a stream by accident."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from env.harness import Child, Program
from env.test_fork import end, fork

np = pytest.importorskip("numpy")

DRAWS = """
    {imports}
    from sandpool.env import serve
    def draw():
        import random, numpy
        return [random.random(), float(numpy.random.random())]
    reseeds = []
    def reset(seed):
        return seed
    def step(action):
        return draw(), 0, False, False, {{}}
    serve(reset=reset, step=step, reseed=reseeds.append)
"""
SEED = 2**40 + 5


def expected(seed: int) -> list[float]:
    generator, legacy = random.Random(seed), np.random.RandomState(seed % 2**32)
    return [generator.random(), legacy.random()]


def draw(program: Program | Child) -> Any:
    return program.step(0)["obs"]


def test_the_first_reset_seeds_random_and_numpy_and_no_later_one_does(start: Any) -> None:
    program = start(DRAWS.format(imports="import random, numpy"))
    program.hello()
    program.reset(SEED)
    first, second = draw(program), draw(program)
    assert first == expected(SEED)
    program.reset(SEED)
    assert draw(program) not in (first, second)


def test_a_reset_without_seed_leaves_the_seeding_to_the_next(start: Any) -> None:
    program = start(DRAWS.format(imports="import random, numpy"))
    program.hello()
    program.reset(None)
    assert draw(program) != expected(SEED)
    program.reset(SEED)
    assert draw(program) == expected(SEED)


@pytest.mark.parametrize("imports", ["import random, numpy", ""])
def test_every_fork_is_seeded_with_its_own_first_seed(start: Any, tmp_path: Path, imports: str) -> None:
    template = start(DRAWS.format(imports=imports))
    template.template()
    children = [fork(template, index, tmp_path) for index in range(2)]
    before = [draw(child) for child in children]  # imports what was not imported before the fork
    assert before[0][0] != before[1][0]
    assert before[0][1] != before[1][1]
    for index, child in enumerate(children):
        child.reset(SEED + index)
        assert draw(child) == expected(SEED + index)
    end(*children)


def test_a_fork_with_a_new_stream_calls_the_environments_own_reseed(start: Any, tmp_path: Path) -> None:
    template = start(DRAWS.format(imports="import random, numpy"))
    template.template()
    child = fork(template, 0, tmp_path, reseed=SEED)
    assert child.call("get", "reseeds")["result"] == [SEED]
    assert draw(child) == expected(SEED)
    child.reset(SEED + 1)
    assert draw(child) == expected(SEED + 1)
    end(child)


def test_numpy_is_not_imported_for_an_environment_that_does_without(start: Any) -> None:
    program = start("""
        import sys
        from sandpool.env import serve
        serve(reset=lambda seed: sorted({"numpy", "gymnasium", "ctypes"} & set(sys.modules)), step=print)
    """)
    program.hello()
    assert program.reset(1)["obs"] == []
