"""The examples that a reader runs against a server of their own do what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def run(server: dict[str, str]) -> Callable[..., str]:
    def run(name: str, *arguments: str) -> str:
        command = [sys.executable, str(EXAMPLES / name), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_an_asynchronous_actor_steps_fast_rows_more_often_than_slow_ones(run: Callable[..., str]) -> None:
    output = run("actor_loop.py", "--envs", "8", "--seconds", "1")
    rows = {line.split("slow row")[0].strip(): [int(number) for number in re.findall(r"row +(\d+)", line)] for line in output.splitlines()}
    assert rows["lock-step"][0] == rows["lock-step"][1] > 0
    assert rows["finish order"][1] > rows["finish order"][0] > 0


def test_rollouts_come_in_groups_with_advantages_relative_to_their_group(run: Callable[..., str]) -> None:
    output = run("group_rollouts.py", "--envs", "4", "--attempts", "3")
    groups = [re.findall(r"(\d) \(([+-][\d.]+)\)", line) for line in output.splitlines()]
    assert [len(group) for group in groups] == [3, 3, 3]
    for group in groups:
        assert abs(sum(float(advantage) for _, advantage in group)) < 0.05


def test_go_explore_finds_more_of_the_maze_than_the_same_steps_without_restore(run: Callable[..., str]) -> None:
    output = run("go_explore.py", "--envs", "8", "--budget", "3000", "--size", "6", "--maze", "2")
    shares = {name: int(share) for name, share in re.findall(r"^([\w -]+): (\d+)% of", output, re.MULTILINE)}
    assert list(shares) == ["without restore", "go-explore"]
    assert shares["go-explore"] > shares["without restore"] > 0


def test_a_tree_search_solves_a_puzzle_by_restoring_states(run: Callable[..., str]) -> None:
    output = run("tree_search.py", "--envs", "8", "--level", "0")
    solution = re.search(r"solved in (\d+) moves: ([URDL]+)$", output, re.MULTILINE)
    assert solution is not None
    assert int(solution[1]) == len(solution[2]) >= 7  # no solution of this level is shorter
    assert "played from the start: solved" in output


def test_rollouts_from_a_forked_prefix_are_those_of_a_replayed_one(run: Callable[..., str]) -> None:
    output = run("branched_rollouts.py", "--envs", "4", "--prefix", "2")
    rows = dict(re.findall(r"prefix (\w+) +(\d+) commands", output))
    assert rows == {"forked": "2", "replayed": "8"}
    # The first and the last of the four edits mend the program.
    assert re.findall(r"rewards ([01 ]+)$", output, re.MULTILINE) == ["1 0 0 1"] * 2
    assert "the same rewards" in output
