"""A tool environment: each action is a shell command, and the tests of a small buggy program decide the reward.

pool = sandpool.RLPool("examples/shell_task", n=8, seed=1, step_timeout=60)
observations, rewards, dones, infos = pool.step(["cat *.py"] * 8)

The seed (or `options={"task": 1}`) chooses the bug. The command's output and exit code
are the observation. The reward is 1 when the tests pass, which ends the episode; a fresh
copy of them runs after each command, so editing them does not help.
"""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from sandpool.env import serve

COMMANDS_MAX = 30
OUTPUT_BYTES = 16 * 1024

TASKS = [
    {
        "goal": "Mend median.py: median([]) must raise ValueError, and the median of an even count is the mean of the middle two.",
        "program": "median.py",
        "source": """def median(numbers):
    ordered = sorted(numbers)
    return ordered[len(ordered) // 2]
""",
        "tests": """
import unittest
from median import median

class Median(unittest.TestCase):
    def test_odd(self): self.assertEqual(median([3, 1, 2]), 2)
    def test_even(self): self.assertEqual(median([4, 1, 3, 2]), 2.5)
    def test_empty(self): self.assertRaises(ValueError, median, [])
""",
    },
    {
        "goal": "Mend slug.py: the words of a title, in lower case, joined by single hyphens, without any at the ends.",
        "program": "slug.py",
        "source": """def slug(title):
    return title.lower().replace(" ", "-")
""",
        "tests": """
import unittest
from slug import slug

class Slug(unittest.TestCase):
    def test_words(self): self.assertEqual(slug("Deep Blue Sea"), "deep-blue-sea")
    def test_spaces(self): self.assertEqual(slug("  two   words "), "two-words")
    def test_signs(self): self.assertEqual(slug("What? Really!"), "what-really")
""",
    },
    {
        "goal": "Mend chunks.py: a list cut into pieces of the given size, the last one shorter, none lost.",
        "program": "chunks.py",
        "source": """def chunks(items, size):
    return [items[i:i + size] for i in range(0, len(items) - size, size)]
""",
        "tests": """
import unittest
from chunks import chunks

class Chunks(unittest.TestCase):
    def test_even(self): self.assertEqual(chunks([1, 2, 3, 4], 2), [[1, 2], [3, 4]])
    def test_rest(self): self.assertEqual(chunks([1, 2, 3], 2), [[1, 2], [3]])
    def test_empty(self): self.assertEqual(chunks([], 3), [])
""",
    },
]


class ShellTask:
    """One episode after another in a folder of the row's own workspace."""

    command_seconds = 10

    def __init__(self):
        self.folder = None
        self.task = None
        self.commands = 0

    def reset(self, seed=None, options=None):
        number = (options or {}).get("task", random.Random(seed).randrange(len(TASKS)))
        self.task = TASKS[number]
        self.commands = 0
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        # Relative: a fork of this environment has a workspace of its own.
        self.folder = Path("task")
        self.folder.mkdir()
        (self.folder / self.task["program"]).write_text(self.task["source"])
        return {"output": self.task["goal"], "exit_code": 0}, {"task": number}

    def step(self, action):
        if not isinstance(action, str):
            raise TypeError(f"the action is {action!r}; expected a shell command")
        output, exit_code = run(["/bin/sh", "-c", action], self.folder, self.command_seconds)
        self.commands += 1
        passed, report = self.run_tests()
        truncated = self.commands >= COMMANDS_MAX and not passed
        observation = {"output": output, "exit_code": exit_code}
        return observation, float(passed), passed, truncated, {"tests": report}

    def run_tests(self):
        """Run a fresh copy of the tests against the program as it is now."""
        program = self.folder / self.task["program"]
        with tempfile.TemporaryDirectory() as place:
            Path(place, "test_task.py").write_text(self.task["tests"])
            if program.is_file():
                shutil.copy(program, place)
            command = [sys.executable, "-B", "-m", "unittest", "test_task"]
            report, exit_code = run(command, place, self.command_seconds)
        # A program that leaves with os._exit(0) has passed nothing.
        return exit_code == 0 and report.endswith("OK\n"), report


def run(command, folder, seconds):
    """Run a command and return its output (the last bytes) and exit code.

    After the time limit everything it started is killed, and the exit code is 124.
    """
    # A file, so that a background program which keeps it open holds nobody up.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            exit_code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            exit_code = 124
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - OUTPUT_BYTES))
        text = output.read().decode("utf-8", "replace")
    return text, exit_code


serve(make=lambda index, config: ShellTask())
