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
