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
    places = "sorted(line.split()[4] for line in open('/proc/self/mountinfo'))"
    assert show(copy, places) == show(source, places)
    assert show(copy, "open('/proc/self/environ').read(1) != '' and open('/proc/self/oom_score_adj').read()") == "500\n"
    finish(copy)


def test_a_copys_folders_have_its_own_quota_without_setuid_and_devices(row: tuple[Child, Generations]) -> None:
    source, generations = row
    run(source, "open('/workspace/half', 'wb').write(bytes(600_000))")
    copy = generations.copy(source)
    for target in ("/workspace", "/tmp", "/dev/shm"):
        size = f"(lambda one: [one.f_blocks * one.f_frsize, one.f_flag & 6])(os.statvfs({target!r}))"
        assert show(copy, size) == [1 << 20, os.ST_NOSUID | os.ST_NODEV]
    full = copy.call("call", "run", args=["open('/tmp/more', 'wb').write(bytes(600_000))"])
    assert full["error"]["type"] == "OSError"
    run(copy, "os.unlink('/workspace/half'); open('/tmp/more', 'wb').write(bytes(600_000))")
    assert show(source, "os.path.getsize('/workspace/half'), os.path.exists('/tmp/more')") == {"$tuple": [600_000, False]}
    finish(copy)


def test_a_copy_can_be_copied_unless_it_gave_up_its_rights(row: tuple[Child, Generations], tmp_path: Path) -> None:
    source, generations = row
    middle = generations.copy(source)
    last = generations.copy(middle, branching=False)
    names = ("CapInh", "CapPrm", "CapEff", "CapAmb")
    told = "{name: line.split()[1] for line in open('/proc/self/status') for name in [line.split(':')[0]] if name.startswith('Cap')}"
    assert {name: show(last, told)[name] for name in names} == dict.fromkeys(names, "0" * 16)
    assert {name: show(source, told)[name] for name in names} == {**dict.fromkeys(names, "0" * 16), "CapPrm": "00000000002000c0"}
    null = os.open("/dev/null", os.O_RDONLY)
    refused = Copy(last, 9, tmp_path, mounts=(null, null, null))
    os.close(null)
    assert refused.answer["error"]["blockers"] == [{"branching": False}]
    refused.close_channel()
    assert last.step(1)["obs"] == [1, 1]
    finish(middle, last)


OPENED = """
os.mkdir('/workspace/deep')
os.chdir('/workspace/deep')
f = open('a', 'w+')
f.write('12345')
f.flush()
os.dup2(f.fileno(), 90)
hidden = tempfile.TemporaryFile()
hidden.write(b'secret')
hidden.flush()
folder = os.open('/dev/shm', os.O_RDONLY)
m = numpy.memmap('/workspace/m', 'u1', 'w+', shape=(5000,))
c = numpy.memmap('/workspace/m', 'u1', 'c', shape=(5000,))
c[4999] = 3
arena = tempfile.TemporaryFile(dir='/dev/shm')
arena.truncate(4096)
pages = mmap.mmap(arena.fileno(), 4096)

def change(number):
    f.write(str(number))
    f.flush()
    m[:] = pages[9] = number
    hidden.seek(0)

def told():
    where = os.fstat(folder).st_ino == os.stat('/dev/shm').st_ino
    return [os.getcwd(), open('a').read(), os.lseek(90, 0, 1), hidden.read().decode(), where, int(m[7]), int(c[4999]), pages[9]]

def foreign():
    own = os.stat('/workspace').st_dev
    found = []
    for name in set(os.listdir('/proc/self/fd')) - {'1', '2'}:
        link = f'/proc/self/fd/{name}'
        if os.path.lexists(link) and os.readlink(link).startswith(('/workspace', '/tmp', '/dev/shm')):
            found += [os.readlink(link)] if os.fstat(int(name)).st_dev != own else []
    for line in open('/proc/self/maps'):
        words = line.split()
        if words[-1].startswith(('/workspace', '/tmp', '/dev/shm')) or words[-1] == '(deleted)':
            found += [line] if os.makedev(*(int(part, 16) for part in words[3].split(':'))) != own else []
    return found, own
"""


def test_nothing_of_the_sources_folders_is_left_in_the_copy(row: tuple[Child, Generations]) -> None:
    source, generations = row
    run(source, OPENED)
    rows: list[Child | Copy] = [source]
    for _ in range(4):
        rows.append(generations.copy(rows[-1]))  # each of the one before
    for number, one in enumerate(rows):
        run(one, f"change({number})")
    for number, one in enumerate(rows):
        assert show(one, "told()") == ["/workspace/deep", f"12345{number}", 6, "secret", True, number, 3, number]
    left = [show(one, "foreign()")["$tuple"] for one in rows]
    assert [found for found, _ in left] == [[]] * 5
    assert len({own for _, own in left}) == 5
    finish(*rows[1:])


def test_locks_and_values_of_multiprocessing_are_each_ones_own(row: tuple[Child, Generations]) -> None:
    source, generations = row
    run(source, "import multiprocessing; lock = multiprocessing.Lock(); value = multiprocessing.Value('i', 7); lock.acquire()")
    copy = generations.copy(source)
    run(copy, "lock.release(); value.value = 9")
    assert show(source, "lock.acquire(block=False), value.value") == {"$tuple": [False, 7]}
    assert show(copy, "lock.acquire(block=False), value.value") == {"$tuple": [True, 9]}
    finish(copy)


def test_mounts_that_cannot_be_attached_end_the_copy_with_the_reason(row: tuple[Child, Generations], tmp_path: Path) -> None:
    source, _ = row
    null = os.open("/dev/null", os.O_RDONLY)
    lost = Copy(source, 9, tmp_path, mounts=(null, null, null), uid=ROW + 9, gid=ROW + 9)
    os.close(null)
    assert lost.first is None
    assert "move_mount to /workspace: Invalid argument" in lost.log()
    lost.close_channel()
    assert source.step(1)["obs"] == [1, 1]
