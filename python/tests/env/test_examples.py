"""The examples play: what each one's documentation says is what happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from env.harness import EXAMPLES, Program, python, vendor


@pytest.fixture
def example(tmp_path: Path) -> Any:
    programs: list[Program] = []

    def run(name: str) -> Program:
        workspace = tmp_path / "workspace"
        workspace.mkdir(exist_ok=True)
        folder = EXAMPLES / name
        plain = (folder / "env").exists()
        argv = [str(folder / "env")] if plain else python(str(folder / "env.py"))
        environ = {"PYTHONPATH": str(vendor(tmp_path / "helper"))}
        program = Program(argv, over="stdio" if plain else "socket", cwd=workspace, environ=environ, log=tmp_path / "log")
        programs.append(program)
        program.hello(workspace=str(workspace))
        return program

    yield run
    for program in programs:
        program.end()


def test_cartpole_is_gymnasiums_own(example: Any) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    program = example("cartpole")
    environment = gymnasium.make("CartPole-v1")
    from env.test_values import decode

    first, _ = environment.reset(seed=42)
    assert (decode(program.reset(42)["obs"]) == first).all()
    for action in (0, 1, 1, 0, 1) * 3:
        expected = environment.step(action)
        reply = program.step(action)
        assert (decode(reply["obs"]) == expected[0]).all()
        assert [reply["reward"], reply["terminated"], reply["truncated"], reply["info"]] == list(expected[1:])
        if expected[2]:
            break


def test_the_number_in_perl_is_found_by_halving(example: Any) -> None:
    program = example("guess_perl")
    found = []
    for seed in range(5):
        assert program.reset(seed)["obs"] == 0
        low, high = 1, 100
        while True:
            guess = (low + high) // 2
            reply = program.step(guess)
            if reply["terminated"]:
                break
            low, high = (guess + 1, high) if reply["obs"] > 0 else (low, guess - 1)
        assert (reply["obs"], reply["reward"], reply["truncated"]) == (0, 1.0, False)
        found.append(guess)
    assert len(set(found)) > 1
    program.reset(1)
    assert [program.step(0)["truncated"] for _ in range(20)] == [False] * 19 + [True]
    assert program.step("x")["error"]["type"] == "BadAction"


MEDIAN = """def median(numbers):
    if not numbers:
        raise ValueError
    low, high = (len(numbers) - 1) // 2, len(numbers) // 2
    return (sorted(numbers)[low] + sorted(numbers)[high]) / 2
"""
SLUG = """import re
def slug(title):
    return "-".join(re.findall("[a-z]+", title.lower()))
"""
FIXES = [
    f"cat > median.py <<'END'\n{MEDIAN}END",
    f"cat > slug.py <<'END'\n{SLUG}END",
    "sed -i 's/len(items) - size/len(items)/' chunks.py",
]


@pytest.mark.parametrize("task", range(3))
def test_a_shell_task_is_won_by_mending_the_program(example: Any, task: int) -> None:
    program = example("shell_task")
    first = program.reset(1, {"task": task})
    assert first["info"] == {"task": task}
    assert "Mend" in first["obs"]["output"]
    looked = program.step("ls; false")
    assert (looked["obs"]["exit_code"], looked["reward"], looked["terminated"]) == (1, 0.0, False)
    assert looked["obs"]["output"].strip() in first["obs"]["output"]
    assert "FAILED" in looked["info"]["tests"]
    mended = program.step(FIXES[task])
    assert (mended["obs"], mended["reward"], mended["terminated"]) == ({"output": "", "exit_code": 0}, 1.0, True)


@pytest.mark.parametrize("trick", ["rm *.py", "echo 'import os; os._exit(0)' > chunks.py", "printf 'import unittest' > test_task.py"])
def test_a_shell_task_is_not_won_by_tricks(example: Any, trick: str) -> None:
    program = example("shell_task")
    program.reset(1, {"task": 2})
    assert program.step(trick)["reward"] == 0.0


def test_a_shell_command_that_hangs_is_killed_with_all_it_started(example: Any) -> None:
    program = example("shell_task")
    program.reset(1)
    started = program.step("sleep 60 & echo $!")["obs"]
    assert started["exit_code"] == 0
    assert _has_ended(int(started["output"]))
    program.call("set", "command_seconds", value=0.2)
    assert program.step("echo begun; sleep 60")["obs"] == {"output": "begun\n", "exit_code": 124}


def test_a_shell_task_takes_text_only(example: Any) -> None:
    program = example("shell_task")
    program.reset(1)
    assert program.step(7)["error"]["message"] == "the action is 7; expected a shell command"


def _has_ended(pid: int) -> bool:
    """Gone, or dead and only waiting to be reaped by whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True
