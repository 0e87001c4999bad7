"""A live environment forks in the middle of an episode: the copy has its memory, streams and settings, and goes on alone."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from env.harness import Copy, Line
from env.live_rows import copied, finish, pid_of, run, show, source_of

np = pytest.importorskip("numpy")


def test_a_copy_goes_on_where_its_source_stands_and_neither_sees_the_other(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path)
    assert source.first is not None
    assert "fork" in source.first["features"]
    source.reset(1)
    source.step("a")
    copy = copied(source, 4, tmp_path)
    assert copy.first == {"id": 0, "ok": True, "index": 4, "pid": pid_of(copy), "reseeded": None}
    assert copy.step("b")["obs"] == [2, "b"]
    assert [source.step("c")["obs"] for _ in range(2)] == [[2, "c"], [3, "c"]]
    assert copy.step("d")["obs"] == [3, "d"]
    assert show(copy, "os.getppid()") == os.getpid()
    assert show(copy, "os.getsid(0)") == pid_of(copy)
    finish(source, copy)


def test_random_streams_are_copied_as_they_stand(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path, "import numpy")
    source.reset(5)
    draws = "[random.random(), random.gauss(0, 1), float(numpy.random.random()), float(rng.random()), libc.rand()]"
    run(source, "rng, libc = numpy.random.default_rng(3), ctypes.CDLL(None); libc.srand(7)")
    show(source, draws)
    copies = [copied(source, index, tmp_path) for index in range(2)]
    expected = [show(source, draws) for _ in range(3)]
    assert expected[0] != expected[1]
    for copy in copies:
        assert [show(copy, draws) for _ in range(3)] == expected
    finish(source, *copies)


def test_a_reseeded_copy_says_what_was_reseeded(start: Any, tmp_path: Path) -> None:
    seed = 2**40 + 9
    imports = "import numpy\n    from gymnasium.utils import seeding\n    seeds = []"
    source = source_of(start, tmp_path, imports, ", reseed=seeds.append")
    source.reset(5)
    run(source, "instance.np_random = shared = seeding.np_random(1)[0]")
    copy = copied(source, 1, tmp_path, reseed=seed)
    assert copy.first is not None
    assert copy.first["reseeded"] == ["random", "numpy.random", "np_random", "reseed"]
    drawn = show(copy, "[random.random(), float(numpy.random.random()), float(shared.random()), seeds]")
    stream, legacy, modern = random.Random(seed), np.random.RandomState(seed % 2**32), np.random.default_rng(seed)
    assert drawn == [stream.random(), legacy.random_sample(), modern.random(), [seed]]
    assert show(source, "seeds") == []
    finish(source, copy)


def test_settings_of_the_process_are_the_sources(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path)
    source.reset()
    run(source, "os.umask(0o027); os.environ['MARK'] = 'set'; ctypes.CDLL(None).setenv(b'DEEP', b'er', 1)")
    run(source, "caught = []; signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))")
    run(source, "signal.signal(signal.SIGUSR2, signal.SIG_IGN); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])")
    run(source, "locale.setlocale(locale.LC_ALL, 'C'); locale.setlocale(locale.LC_TIME, 'C.UTF-8'); sys.setrecursionlimit(777)")
    run(source, "threading.current_thread().name = 'mine'; os.nice(3); getenv = ctypes.CDLL(None).getenv; getenv.restype = ctypes.c_char_p")
    copy = copied(source, 1, tmp_path)
    run(copy, "before = os.umask(0); os.umask(before); signal.raise_signal(signal.SIGUSR1); signal.raise_signal(signal.SIGUSR2)")
    told = show(
        copy,
        "[before, os.environ['MARK'], getenv(b'DEEP').decode(), caught, [int(one) for one in signal.pthread_sigmask(0, [])],"
        " locale.setlocale(locale.LC_TIME), sys.getrecursionlimit(), threading.current_thread().name, os.nice(0)]",
    )
    assert told == [0o027, "set", "er", [signal.SIGUSR1], [signal.SIGHUP], "C.UTF-8", 777, "mine", 3]
    assert show(source, "caught") == []
    finish(source, copy)


def test_each_of_a_long_chain_of_copies_goes_on(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path, "import numpy")
    source.reset(1)
    run(source, "log = open('log', 'a+'); rng = numpy.random.default_rng(1); hidden = tempfile.TemporaryFile(); hidden.write(b'0')")
    rows: list[Any] = [source]
    for index in range(30):
        copy = copied(rows[-1], index, tmp_path)
        assert copy.step(index)["obs"] == [index + 1, index]
        run(copy, f"log.write('{index},'); log.flush(); rng.random(); hidden.write(b'.')")
        rows.append(copy)
    assert show(rows[-1], "open('log').read()") == "".join(f"{index}," for index in range(30))
    assert show(rows[10], "open('log').read()") == "".join(f"{index}," for index in range(10))
    stream = np.random.default_rng(1).random(31)
    assert [show(row, "float(rng.random())") for row in rows] == stream.tolist()
    assert [show(row, "hidden.tell()") for row in rows] == list(range(1, 32))
    assert len({show(row, "len(os.listdir('/proc/self/fd'))") for row in rows}) == 1
    finish(*rows)


def test_copies_asked_for_at_once_are_all_of_the_same_moment(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path)
    source.reset(1)
    source.step("a")
    run(source, "hidden = tempfile.TemporaryFile(buffering=0); hidden.write(b'then')")
    pairs = [socket.socketpair() for _ in range(20)]
    with (tmp_path / "stderr").open("wb") as stderr:
        for index, (_, far) in enumerate(pairs):
            for name in ("workspace", "tmp", "shm"):
                (tmp_path / f"many-{index}" / name).mkdir(parents=True)
            request = {"id": index, "op": "fork", "live": True, "index": index, "workspace": str(tmp_path / f"many-{index}")}
            line = json.dumps({**request, "isolated": False, "branching": True, "reseed": None}).encode() + b"\n"
            source.send(line, (far.fileno(), stderr.fileno()))
            far.close()
        code = "hidden.seek(0); hidden.write(b'now!')"
        source.send(json.dumps({"id": 99, "op": "call", "name": "run", "args": [code]}).encode() + b"\n")
    pids = [json.loads(source.read() or b"")["pid"] for _ in range(20)]
    assert json.loads(source.read() or b"")["id"] == 99
    for (near, _), pid in zip(pairs, pids, strict=True):
        copy: Any = Line(near, near)
        assert json.loads(copy.read() or b"")["pid"] == pid
        assert copy.step("b")["obs"] == [2, "b"]
        run(copy, "hidden.seek(0)")
        assert show(copy, "hidden.read().decode()") == "then"
        near.close()
    assert {os.waitpid(pid, 0)[1] for pid in pids} == {0}
    finish(source)


def test_a_copy_outlives_its_source_and_its_template(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path)
    source.reset(1)
    copy = copied(source, 1, tmp_path)
    os.kill(pid_of(source), signal.SIGKILL)
    os.waitpid(pid_of(source), 0)
    source.close_channel()
    second = copied(copy, 2, tmp_path)
    assert second.step("x")["obs"] == [1, "x"]
    finish(copy, second)


def test_what_waits_in_standard_streams_is_written_once(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path)
    source.reset(1)
    run(source, "sys.stdout = open(1, 'w', closefd=False); print('waiting')")
    run(source, "kept = sys.stderr; sys.stderr = open('own.txt', 'w'); print('mine', file=sys.stderr)")
    copy = copied(source, 1, tmp_path)
    for row in (copy, source):
        run(row, "print('then'); sys.stdout.flush(); sys.stderr.flush(); sys.stderr = kept")
        assert show(row, "open('own.txt').read()") == "mine\n"
    assert (source.log(), copy.log()) == ("waiting\nthen\n", "then\n")
    finish(source, copy)


def test_a_copy_that_cannot_become_one_ends_with_the_reason_and_the_source_goes_on(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path)
    source.reset(1)
    run(source, "kept = open('kept', 'w')")
    before = show(source, "sorted(os.listdir('/proc/self/fd'))")
    lost = Copy(source, 1, tmp_path, workspace=str(tmp_path / "nowhere"))
    assert lost.first is None
    assert "No such file or directory" in lost.log()
    assert os.waitstatus_to_exitcode(os.waitpid(lost.answer["pid"], 0)[1]) == 1
    lost.close_channel()
    refused = Copy(source, 2, tmp_path, reseed="text")
    assert "seed is 'text'; expected null or an integer" in refused.answer["error"]["message"]
    refused.close_channel()
    assert source.step("a")["obs"] == [1, "a"]
    assert show(source, "sorted(os.listdir('/proc/self/fd'))") == before
    finish(source)


def test_a_live_fork_without_its_descriptors_is_an_error(start: Any, tmp_path: Path) -> None:
    source = source_of(start, tmp_path)
    for isolated, count in ((True, 5), (False, 2)):
        answer = source.ask({"id": 3, "op": "fork", "live": True, "index": 1, "isolated": isolated})
        assert f"came with 0 descriptors; expected {count}: the copy's channel" in answer["error"]["message"]
    assert source.reset(1)["obs"] == 0
    finish(source)
