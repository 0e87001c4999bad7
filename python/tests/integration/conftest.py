from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str], Path]


@pytest.fixture(scope="session")
def write_environment(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Makes a folder with the given text as env.py."""

    def write(program: str) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        (folder / "env.py").write_text(textwrap.dedent(program))
        return folder

    return write


COUNTER = """
    import os, signal, sys, time
    from sandpool.env import serve

    state = {}

    def reset(seed, options=None):
        state.update(seed=seed, steps=0, options=options)
        return [seed, 0], {"options": options}

    def step(action):
        if action == 90:
            raise ValueError("on purpose")
        if action == 91:
            os._exit(3)
        if action == 92:
            time.sleep(3600)
        if action == 93:
            print("asleep", file=sys.stderr, flush=True)
            time.sleep(1.0)
        if action == 94:
            return [1, 2, 3], 0.0, False, False, {}
        state["steps"] += 1
        print("step", state["steps"], "\\x1b[2J", file=sys.stderr, flush=True)
        return [state["seed"], state["steps"]], float(action), action == 7, action == 8, {}

    class Environment:
        level = 1
        def reset(self, *, seed=None, options=None):
            return reset(seed, options)
        def step(self, action):
            return step(action)
        def steps(self):
            return state["steps"]
        def echo(self, *args, **kwargs):
            return args, kwargs

    serve(make=lambda config: Environment())
"""


@pytest.fixture(scope="session")
def counter(write_environment: Write) -> Path:
    """Observation [seed of the episode, steps in it], reward the action; 7 terminates, 8 truncates, 90 to 94 misbehave."""
    return write_environment(COUNTER)
