"""The examples that a reader runs against a server of their own do what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def run(server: dict[str, str]) -> Callable[..., str]:
    def run(name: str, *arguments: str) -> str:
        command = [sys.executable, str(REPOSITORY / "examples" / "machines" / name), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_training_job_runs_inside_and_its_policy_comes_back(run: Callable[..., str], tmp_path: Path) -> None:
    output = run("train_in_a_sandbox.py", "--image", "host", "--own-packages", "--generations", "4", "--result", str(tmp_path / "result"))
    means = [float(mean) for mean in re.findall(r"^generation +\d+: mean return +([\d.]+), \d+ steps$", output, re.MULTILINE)]
    assert len(means) == 4
    assert means[-1] > means[0]
    policy = json.loads((tmp_path / "result" / "policy.json").read_text())
    assert len(policy["weights"]) == 4
    assert f"over 10 episodes: {policy['mean_return']:.1f};" in output


def test_an_agent_mends_a_program_with_tools_that_run_inside(run: Callable[..., str]) -> None:
    output = run("agent_tools.py")
    assert re.findall(r"^> (\w+)", output, re.MULTILINE) == [
        "shell",
        "read_file",
        "write_file",
        "shell",
        "read_file",
        "write_file",
        "shell",
    ]
    assert output.count("FAILED (failures=1)") == 2
    assert output.endswith("7 tool calls; solved: yes\n")


def test_the_quickstart_runs_a_program_and_reads_what_it_wrote(run: Callable[..., str]) -> None:
    output = run("quickstart.py")
    assert "Its program ended with 0 " in output
    assert output.endswith("The file it wrote: 2 3 5 7 11 13 17 19 23 29 31 37 41 43 47\nThe machine is deleted.\n")
