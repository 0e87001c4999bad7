"""The Python of these pages runs as one program a page, from top to bottom, and each block prints what stands below it."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ["autoreset", "branching", "seeding", "failures-in-training", "local-or-pool", "machines-python"]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w/]+\.py)\n")
_END_OF_BLOCK = "\x1e"


class Block(NamedTuple):
    """A block of Python and the output that the page shows for it, None where it shows none."""

    code: str
    output: str | None


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the blocks of Python of a page; a block of `text` that follows is the output."""
    fences = [*_FENCE.findall(page.read_text(encoding="utf-8")), ("", "")]
    for (language, code), (following, output) in itertools.pairwise(fences):
        if language == "python":
            yield Block(code, output if following == "text" else None)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_says(name: str, server: dict[str, str], tmp_path: Path) -> None:
    blocks = list(blocks_of(DOCS / f"{name}.md"))
    assert blocks, f"docs/{name}.md has no block of Python"
    program = ""
    for block in blocks:
        if file := _FILE.match(block.code):
            path = tmp_path / file[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.code)
        else:
            program += block.code
        program += f"\nprint({_END_OF_BLOCK!r})\n"
    (tmp_path / "page.py").write_text(program)
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.split(_END_OF_BLOCK)[:-1]
    shown = [(text.strip("\n"), block.output.strip("\n")) for text, block in zip(printed, blocks, strict=True) if block.output is not None]
    assert [text for text, _ in shown] == [output for _, output in shown]
