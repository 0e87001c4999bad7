"""A live copy with real identities: its own user, memory group, and three folders in a mount namespace of its own.

Needs root, `unshare` and `setpriv`; SANDPOOL_REQUIRE_ROOT turns a skip into a failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from env.harness import Child, Copy, Program
from env.live_rows import code, copied, finish, pid_of, run, show
from env.mounts import copied_mounts
from env.test_identity import ROW, isolated, template_in

Template = tuple[Program, Path]


@pytest.fixture
def template(tmp_path: Path) -> Iterator[Template]:
    with template_in(tmp_path, code("import numpy")) as started:
        yield started


class Generations:
    """Makes isolated copies with a uid of their own each, and lends them what the agent lends."""

    def __init__(self, folder: Path, tmp_path: Path) -> None:
        self.folder = folder
        self.tmp_path = tmp_path
        self.count = 0

    def copy(self, source: Child | Copy, **members: Any) -> Copy:
        self.count += 1
        uid = ROW + self.count
        memory = self.folder / f"memory-{self.count}"
        memory.mkdir(mode=0o755)
        (memory / "cgroup.procs").touch()
        (memory / "cgroup.procs").chmod(0o666)
        mounts = copied_mounts(pid_of(source), self.tmp_path / f"mount-{self.count}", uid)
        settings = {"uid": uid, "gid": uid, "memory": str(memory), "rlimits": {"as": None, "nproc": 7}, "oom_score_adj": 500, **members}
        try:
            return copied(source, self.count, self.tmp_path, mounts=mounts, **settings)
        finally:
            for descriptor in mounts:
                os.close(descriptor)


@pytest.fixture
def row(template: Template, tmp_path: Path) -> Iterator[tuple[Child, Generations]]:
    program, folder = template
    program.template()
    child = isolated(program, folder, tmp_path)
    child.reset()
    yield child, Generations(folder, tmp_path)
    finish(child)


def test_a_copy_is_its_own_user_with_its_own_folders(row: tuple[Child, Generations]) -> None:
    source, generations = row
    run(source, "open('/workspace/a', 'w').write('one'); open('/tmp/b', 'w').write('two'); open('/dev/shm/c', 'w').write('three')")
    copy = generations.copy(source)
    assert show(copy, "os.getresuid(), os.getresgid(), os.getgroups()") == {
        "$tuple": [{"$tuple": [ROW + 1] * 3}, {"$tuple": [ROW + 1] * 3}, []]
    }
    assert (generations.folder / "memory-1" / "cgroup.procs").read_text() == "0"
    assert show(copy, "[open(path).read() for path in ('/workspace/a', '/tmp/b', '/dev/shm/c')]") == ["one", "two", "three"]
    run(copy, "open('/workspace/a', 'a').write('!')")
    run(source, "open('/tmp/b', 'a').write('?')")
    assert show(copy, "open('/workspace/a').read(), open('/tmp/b').read()") == {"$tuple": ["one!", "two"]}
    assert show(source, "open('/workspace/a').read(), open('/tmp/b').read()") == {"$tuple": ["one", "two?"]}
    places = "[line.split()[4] for line in open('/proc/self/mountinfo')]"
    assert sorted(show(copy, places)) == sorted(show(source, places))
    finish(copy)
