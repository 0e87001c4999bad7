"""What a copy would lose or share is named before the fork, all of it at once; the row goes on, and forks once it is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from env.harness import Copy
from env.live_rows import copied, finish, run, show, source_of

THREADS = """
gone, named = threading.Event(), threading.Event()
def wait():
    ctypes.CDLL(None).prctl(15, b"renderer", 0, 0, 0)
    named.set()
    gone.wait()
others = [threading.Thread(target=wait) for _ in range(2)]
for one in others:
    named.clear()
    one.start()
    named.wait()
"""
OBSTACLES = {
    "threads": (
        THREADS,
        "gone.set()\nfor one in others: one.join()\nwhile len(os.listdir('/proc/self/task')) > 1: pass",
        "[{'threads': 2, 'names': ['renderer']}]",
    ),
    "a child program": (
        "child = subprocess.Popen(['sleep', '1000'])\nwhile 'sleep' not in open(f'/proc/{child.pid}/comm').read(): pass",
        "child.kill(); child.wait()",
        "[{'processes': 1, 'names': ['sleep']}]",
    ),
    "a child program that nobody waited for": (
        "child = subprocess.Popen(['sh', '-c', 'exit 3'])\nwhile open(f'/proc/{child.pid}/stat').read().split()[2] != 'Z': pass",
        "status = child.wait()",
        "[{'processes': 1, 'names': ['sh (ended, not waited for)']}]",
    ),
    "sockets": (
        "pair = socket.socketpair(); os.dup2(pair[0].fileno(), 50); os.dup2(pair[1].fileno(), 51); [one.close() for one in pair]",
        "os.close(50); os.close(51)",
        "[{'sockets': 2, 'descriptors': [50, 51]}]",
    ),
    "pipes": (
        "a, b = os.pipe(); os.dup2(a, 60); os.dup2(b, 61); os.close(a); os.close(b); os.mkfifo('q'); f = os.open('q', os.O_RDWR)",
        "os.close(60); os.close(61); os.close(f)",
        "[{'pipes': 3, 'descriptors': [f, 60, 61]}]",
    ),
    "an event queue": (
        "import select; queue = select.epoll()",
        "queue.close()",
        "[{'other': 1, 'names': ['anon_inode:[eventpoll]']}]",
    ),
    "a device": ("device = open('/dev/ptmx')", "device.close()", "[{'other': 1, 'names': [os.path.realpath('/dev/ptmx')]}]"),
    "a database": (
        "import sqlite3; db = sqlite3.connect('x.db'); db.execute('create table t (a)'); db.commit()",
        "db.close()",
        "[{'other': 1, 'names': [os.getcwd() + '/x.db (an open SQLite database; close it between steps)']}]",
    ),
    "shared memory": (
        "memory = mmap.mmap(-1, 4096)",
        "memory.close()",
        "[{'shared_memory': ['/dev/zero (deleted)']}]",
    ),
    "a record lock": (
        "f = open('locked', 'w'); fcntl.lockf(f, fcntl.LOCK_EX)",
        "fcntl.lockf(f, fcntl.LOCK_UN)",
        "[{'locks': 1}]",
    ),
    "a file lock": (
        "f = open('locked', 'w'); fcntl.flock(f, fcntl.LOCK_EX)",
        "fcntl.flock(f, fcntl.LOCK_UN)",
        "[{'locks': 1}]",
    ),
    "a timer": (
        "signal.signal(signal.SIGALRM, signal.SIG_IGN); signal.alarm(1000)",
        "signal.alarm(0)",
        "[{'timers': 1}]",
    ),
    "a timer of POSIX": (
        "libc = ctypes.CDLL(None); place = ctypes.c_void_p(); libc.timer_create(1, None, ctypes.byref(place))",
        "libc.timer_delete(place)",
        "[{'timers': 1}]",
    ),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_it_is_named_and_without_it_the_fork_is_made(start: Any, tmp_path: Path, name: str) -> None:
    begin, stop, expected = OBSTACLES[name]
    source = source_of(start, tmp_path)
    source.reset(1)
    run(source, begin)
    refused = Copy(source, 1, tmp_path)
    error = refused.answer["error"]
    assert refused.first is None
    refused.close_channel()
    assert (error["kind"], error["blockers"], error["traceback"]) == ("fork_unsupported", show(source, expected), None)
    assert source.step("a")["obs"] == [1, "a"]
    run(source, stop)
    copy = copied(source, 2, tmp_path)
    assert copy.step("b")["obs"] == [2, "b"]
    finish(source, copy)


def test_everything_in_the_way_is_named_at_once(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path)
    before = show(source, "sorted(os.listdir('/proc/self/fd'))")
    run(source, "a, b = socket.socketpair(); m = mmap.mmap(-1, 4096); signal.alarm(1000); hidden = tempfile.TemporaryFile()")
    refused = Copy(source, 1, tmp_path)
    assert [next(iter(one)) for one in refused.answer["error"]["blockers"]] == ["timers", "sockets", "shared_memory"]
    assert "end or close what is named" in refused.answer["error"]["message"]
    refused.close_channel()
    run(source, "a.close(); b.close(); m.close(); signal.alarm(0); hidden.close()")
    assert show(source, "sorted(os.listdir('/proc/self/fd'))") == before
    finish(source)


def test_shared_pages_that_nothing_writes_or_that_are_the_environments_are_no_obstacle(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path)
    run(source, "library = open(sys.executable, 'rb'); read = mmap.mmap(library.fileno(), 4096, access=mmap.ACCESS_READ)")
    run(source, "level = open(Path(sys.argv[0]).with_name('level'), 'w+b'); level.truncate(4096); map = mmap.mmap(level.fileno(), 4096)")
    copy = copied(source, 1, tmp_path)
    assert show(copy, "read[:4].decode('latin-1')") == "\x7fELF"
    finish(source, copy)
    (tmp_path / "second").mkdir()
    source = source_of(start, tmp_path / "second")
    run(source, f"other = open({str(tmp_path / 'other')!r}, 'w+b'); other.truncate(4096); map = mmap.mmap(other.fileno(), 4096)")
    refused = Copy(source, 1, tmp_path / "second")
    assert refused.answer["error"]["blockers"] == [{"shared_memory": [str(tmp_path / "other")]}]
    refused.close_channel()
    finish(source)


def test_an_abandoned_child_program_that_ended_is_waited_for(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path)
    run(source, "import warnings; warnings.simplefilter('ignore'); stdin, w = os.pipe(); pid = subprocess.Popen(['cat'], stdin=stdin).pid")
    run(source, "os.close(stdin); os.close(w)")
    run(source, "while open(f'/proc/{pid}/stat').read().split()[2] != 'Z': pass")
    copy = copied(source, 1, tmp_path)
    finish(source, copy)


def test_a_name_that_is_no_text_does_not_break_the_answer(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path)
    run(source, "open(b'\\xff\\n', 'w+b').truncate(4096); os.mkdir(b'\\xfe'); os.mkfifo(b'\\xfe/x'); f = os.open(b'\\xfe/x', os.O_RDWR)")
    run(source, f"os.link(b'\\xff\\n', {str(tmp_path)!r}.encode() + b'/\\xfd'); o = open({str(tmp_path)!r}.encode() + b'/\\xfd', 'r+b')")
    run(source, "m = mmap.mmap(o.fileno(), 4096)")
    refused = Copy(source, 1, tmp_path)
    assert refused.answer["error"]["blockers"][1] == {"shared_memory": [f"{tmp_path}/\\udcfd"]}
    refused.close_channel()
    run(
        source,
        "m.close(); o.close(); os.close(f); o = open(b'\\xff\\n', 'r+b'); m = mmap.mmap(o.fileno(), 4096); m[0] = 65; os.chdir(b'\\xfe')",
    )
    copy = copied(source, 2, tmp_path)
    run(copy, "m[0] = 66")
    assert show(copy, "open(b'../\\xff\\n', 'rb').read(1).decode()") == "B"
    assert show(source, "open(b'../\\xff\\n', 'rb').read(1).decode()") == "A"
    finish(source, copy)


def test_what_no_helper_forked_and_what_gave_up_its_rights_says_so(start: Any, tmp_path: Path) -> None:
    spawned = start("from sandpool.env import serve; serve(reset=lambda seed: 0, step=lambda action: (0, 0, False, {}))")
    assert "fork" not in spawned.hello()["features"]
    (tmp_path / "ws").mkdir()
    spawned.workspace = tmp_path / "ws"
    refused = Copy(spawned, 1, tmp_path)
    assert refused.answer["error"]["blockers"] == [{"spawned": True}]
    refused.close_channel()
    assert spawned.reset(1)["obs"] == 0
