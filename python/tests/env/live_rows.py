"""The program of the tests of live forks: an environment whose state is whatever the test's code makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from env.harness import Child, Copy
from env.test_fork import end, fork

LIVE = """
    import ctypes, fcntl, locale, mmap, os, random, signal, socket, subprocess, sys, tempfile, threading, time
    from pathlib import Path
    {imports}
    from sandpool.env import serve

    class Env:
        def __init__(self):
            self.steps = 0
        def reset(self, seed=None):
            self.steps = 0
            return self.steps
        def step(self, action):
            self.steps += 1
            return [self.steps, action], 0.0, False, False, {{}}
        def run(self, code):
            exec(code, globals())
        def show(self, code):
            return eval(code, globals())

    instance = Env()
    serve(instance{more})
"""


def code(imports: str = "", more: str = "") -> str:
    return LIVE.format(imports=imports, more=more)


def run(row: Child | Copy, text: str) -> None:
    reply = row.call("call", "run", args=[text])
    assert "error" not in reply, reply


def show(row: Child | Copy, text: str) -> Any:
    reply = row.call("call", "show", args=[text])
    assert "error" not in reply, reply
    return reply["result"]


def source_of(start: Any, folder: Path, imports: str = "", more: str = "") -> Child:
    """A row forked from a template."""
    template = start(code(imports, more))
    template.template()
    return fork(template, 0, folder)


def copied(source: Child | Copy, index: int, folder: Path, **members: Any) -> Copy:
    copy = Copy(source, index, folder, **members)
    assert copy.first is not None, (copy.answer, copy.log())
    assert copy.answer == {"id": 200 + index, "ok": True, "pid": copy.first["pid"]}
    return copy


def pid_of(row: Child | Copy) -> int:
    assert row.first is not None
    return int(row.first["pid"])


def finish(*rows: Child | Copy) -> None:
    end(*rows)  # type: ignore[arg-type]
