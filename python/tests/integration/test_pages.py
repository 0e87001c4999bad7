"""The code of these pages runs as one program a page and language, from top to bottom, and each block prints what stands below it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = ["autoreset", "branching", "seeding", "failures-in-training", "local-or-pool", "machines", "machines-python"]
MACHINE_PAGES = {"machines", "machines-python"}
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w/]+\.py)\n")
_END_OF_BLOCK = "\x1e"


class Block(NamedTuple):
    """A block of code and the output that the page shows for it, None where it shows none."""

    code: str
    output: str | None


def blocks_of(page: Path, language: str) -> Iterator[Block]:
    """Yield the blocks of one language; a block of `text` that follows, perhaps after the same in other languages, is the output."""
    fences = [*_FENCE.findall(page.read_text(encoding="utf-8")), (language, "")]
    for index, (found, code) in enumerate(fences[:-1]):
        if found == language:
            following = next(fence for fence in fences[index + 1 :] if fence[0] in (language, "text"))
            yield Block(code, following[1] if following[0] == "text" else None)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_says(name: str, server: dict[str, str], tmp_path: Path) -> None:
    if name in MACHINE_PAGES:
        require_root()
    blocks = list(blocks_of(DOCS / f"{name}.md", "python"))
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
    assert_prints([sys.executable, "page.py"], blocks, tmp_path)


def test_the_typescript_of_the_page_of_machines_prints_the_same(server: dict[str, str], tmp_path: Path) -> None:
    require_root()
    blocks = list(blocks_of(DOCS / "machines.md", "ts"))
    assert [block.output for block in blocks] == [block.output for block in blocks_of(DOCS / "machines.md", "python")]
    node = shutil.which("node")
    assert node, "the repository needs Node; scripts/environment puts it on the path"
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    (tmp_path / "page.mts").write_text("".join(f"{block.code}\nconsole.log({_END_OF_BLOCK!r});\n" for block in blocks))
    assert_prints([node, "page.mts"], blocks, tmp_path)


def assert_prints(command: list[str], blocks: list[Block], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.split(_END_OF_BLOCK)[:-1]
    shown = [(text.strip("\n"), block.output.strip("\n")) for text, block in zip(printed, blocks, strict=True) if block.output is not None]
    assert [text for text, _ in shown] == [output for _, output in shown]


def require_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("machines need root")
