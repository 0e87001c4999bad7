from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from env.harness import Program, python, vendor


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """start(code, over="socket") runs an environment's code with the helper beside it."""
    programs: list[Program] = []

    def run(code: str, **settings: Any) -> Program:
        number = len(programs)
        folder = vendor(tmp_path / f"env-{number}")
        (folder / "env.py").write_text(textwrap.dedent(code))
        program = Program(python(str(folder / "env.py")), log=tmp_path / f"log-{number}", **settings)
        programs.append(program)
        return program

    yield run
    for program in programs:
        program.end()
