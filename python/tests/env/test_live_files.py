"""What a source has open in its folders is the copy's own afterwards: the same content at the same place, and no way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from env.live_rows import copied, finish, run, show, source_of

KEPT = "[[os.lseek(n, 0, 1), fcntl.fcntl(n, fcntl.F_GETFL) & ~0o100000, os.get_inheritable(n)] for n in numbers]"  # but O_LARGEFILE


def begun(start: Any, tmp_path: Path, imports: str = "") -> Any:
    source = source_of(start, tmp_path, imports)
    source.reset(1)
    return source


def contents(row: Any, name: str) -> Any:
    return show(row, f"open({name!r}).read()")


def test_open_files_keep_offset_flags_and_inheritance(start: Any, tmp_path: Path) -> None:
    source = begun(start, tmp_path)
    run(source, "open('a', 'w').write('0123456789')")
    run(
        source, "opened = [open('a', 'rb'), open('a', 'r+b'), open('a', 'ab'), open('w', 'wb')]; numbers = [one.fileno() for one in opened]"
    )
    run(source, "opened[0].seek(3); opened[1].seek(5); opened[3].write(b'wx'); opened[3].flush(); os.set_inheritable(numbers[1], True)")
    run(source, "numbers.append(os.open('a', os.O_RDWR | os.O_SYNC | os.O_NONBLOCK | os.O_CLOEXEC))")
    copy = copied(source, 1, tmp_path)
    assert show(copy, KEPT) == show(source, KEPT)
    run(
        copy,
        "opened[1].write(b'copy'); opened[1].flush(); opened[2].write(b'!'); opened[2].flush(); opened[3].write(b'y'); opened[3].flush()",
    )
    assert (contents(copy, "a"), contents(copy, "w")) == ("01234copy9!", "wxy")
    assert (contents(source, "a"), contents(source, "w")) == ("0123456789", "wx")
    run(source, "opened[1].write(b'S'); opened[1].flush(); opened[2].write(b'?'); opened[2].flush()")
    assert show(copy, "opened[0].read().decode()") == "34copy9!"
    assert contents(source, "a") == "01234S6789?"
    finish(source, copy)


def test_unflushed_writes_reach_each_ones_own_file(start: Any, tmp_path: Path) -> None:
    source = begun(start, tmp_path)
    run(source, "f = open('f', 'w'); f.write('before '); ")
    copy = copied(source, 1, tmp_path)
    run(copy, "f.write('copy'); f.close()")
    run(source, "f.write('source'); f.close()")
    assert (contents(copy, "f"), contents(source, "f")) == ("before copy", "before source")
    finish(source, copy)


@pytest.mark.parametrize("kernel_tells", [True, False])
def test_duplicates_share_one_offset_and_separate_openings_do_not(start: Any, tmp_path: Path, kernel_tells: bool) -> None:
    silent = "from sandpool.env.native import Native\n    Native.is_same_file = lambda self, left, right: None"
    source = begun(start, tmp_path, "" if kernel_tells else silent)
    run(source, "open('a', 'w').write('x' * 100)")
    run(source, "a = os.open('a', os.O_RDWR); b = os.dup(a); c = os.open('a', os.O_RDWR); os.lseek(a, 7, 0); os.lseek(c, 7, 0)")
    run(source, "d = fcntl.fcntl(a, fcntl.F_DUPFD, 100)")
    copy = copied(source, 1, tmp_path)
    for row in (copy, source):
        run(row, "os.lseek(b, 20, 0)")
        assert show(row, "[os.lseek(n, 0, 1) for n in (a, b, c, d)]") == [20, 20, 7, 20]
        run(row, "os.lseek(c, 9, 0)")
        assert show(row, "[os.lseek(n, 0, 1) for n in (a, b, c, d)]") == [20, 20, 9, 20]
    finish(source, copy)


def test_files_without_a_name_are_copied_with_their_holes(start: Any, tmp_path: Path) -> None:
    source = begun(start, tmp_path)
    run(source, "hidden = tempfile.TemporaryFile(); hidden.write(b'begin'); hidden.seek(50_000_000); hidden.write(b'end'); hidden.seek(2)")
    run(source, "made = os.open('gone', os.O_CREAT | os.O_RDWR); os.write(made, b'gone?'); os.unlink('gone'); os.fchmod(made, 0o640)")
    run(source, "only = os.open('only', os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600); os.write(only, b'one'); os.unlink('only')")
    run(
        source,
        "memory = os.memfd_create('frame', os.MFD_ALLOW_SEALING); os.write(memory, b'pixels'); fcntl.fcntl(memory, fcntl.F_ADD_SEALS, 2)",
    )
    copy = copied(source, 1, tmp_path)
    run(source, "hidden.seek(0); hidden.write(b'BEGIN'); hidden.flush(); os.pwrite(made, b'GONE', 0); os.pwrite(memory, b'PIX', 0)")
    assert show(copy, "hidden.tell(), hidden.read(3).decode()") == {"$tuple": [2, "gin"]}
    assert show(copy, "os.fstat(hidden.fileno()).st_size, os.fstat(hidden.fileno()).st_blocks < 1000") == {"$tuple": [50_000_003, True]}
    assert show(copy, "os.pread(hidden.fileno(), 9, 50_000_000).decode(), os.pread(made, 9, 0).decode()") == {"$tuple": ["end", "gone?"]}
    assert show(copy, "oct(os.fstat(made).st_mode), os.fstat(made).st_nlink") == {"$tuple": ["0o100640", 0]}
    run(copy, "os.write(only, b'two')")
    assert show(copy, "open(f'/proc/self/fd/{only}').read()") == "onetwo"
    assert show(copy, "os.pread(memory, 9, 0).decode(), fcntl.fcntl(memory, fcntl.F_GET_SEALS)") == {"$tuple": ["pixels", 2]}
    assert show(source, "open(f'/proc/self/fd/{only}').read()") == "one"
    finish(source, copy)


def test_a_file_is_found_by_its_other_name_or_its_new_one(start: Any, tmp_path: Path) -> None:
    source = begun(start, tmp_path)
    run(
        source,
        "f = open('a', 'w'); os.mkdir('deep'); os.link('a', 'deep/b'); os.unlink('a'); g = open('c', 'w'); os.rename('c', 'd (deleted)')",
    )
    run(source, "h = open('e', 'w'); open('new', 'w').write('new'); os.rename('new', 'e')")
    copy = copied(source, 1, tmp_path)
    run(copy, "f.write('f'); f.flush(); g.write('g'); g.flush(); h.write('h'); h.flush()")
    assert [contents(copy, name) for name in ("deep/b", "d (deleted)", "e")] == ["f", "g", "new"]
    assert [contents(source, name) for name in ("deep/b", "d (deleted)", "e")] == ["", "", "new"]
    assert show(copy, "open(f'/proc/self/fd/{h.fileno()}').read()") == "h"
    finish(source, copy)


def test_files_that_their_mode_would_not_open_any_more_stay_open(start: Any, tmp_path: Path) -> None:
    source = begun(start, tmp_path)
    run(source, "f = open('a', 'w'); os.chmod('a', 0o400); d = os.open('.', os.O_RDONLY); p = os.open('a', 0o10000000)")
    copy = copied(source, 1, tmp_path)
    run(copy, "f.write('written'); f.flush(); os.mkdir('made', dir_fd=d)")
    assert show(copy, "open('a').read(), oct(os.stat('a').st_mode), os.path.samestat(os.fstat(p), os.stat('a'))") == {
        "$tuple": ["written", "0o100400", True]
    }
    assert show(copy, "os.path.isdir('made')") is True
    assert show(source, "os.path.isdir('made')") is False
    finish(source, copy)


def test_the_current_directory_is_the_same_in_the_copy(start: Any, tmp_path: Path) -> None:
    source = begun(start, tmp_path)
    run(source, "os.makedirs('a/b'); os.chdir('a/b'); held = os.open('.', os.O_RDONLY)")
    copy = copied(source, 1, tmp_path)
    assert show(copy, "os.getcwd()") == f"{copy.workspace}/workspace/a/b"
    run(copy, "open('here', 'w').write('x')")
    assert (copy.workspace / "workspace" / "a" / "b" / "here").exists()
    assert show(source, "os.listdir()") == []
    assert show(copy, "os.listdir(held)") == ["here"]
    run(source, "os.rmdir('../b')")
    second = copied(source, 2, tmp_path)
    assert show(second, "os.readlink('/proc/self/cwd').endswith('(deleted)'), os.listdir(), os.listdir(held)") == {"$tuple": [True, [], []]}
    run(second, "os.chdir(os.environ['HOME'])")
    assert show(second, "os.listdir(), os.listdir('a')") == {"$tuple": [["a"], []]}
    finish(source, copy, second)


def test_variables_that_name_the_folder_name_the_copys_where_nothing_is_mounted(start: Any, tmp_path: Path) -> None:
    source = begun(start, tmp_path)
    run(source, "home = os.environ['HOME']; os.environ['DATA'] = home + '/data'; tempfile.gettempdir()")
    run(source, "os.environ['OTHER'] = os.path.dirname(home) + 'x'")
    copy = copied(source, 1, tmp_path)
    told = "[os.environ[name] for name in ('HOME', 'TMPDIR', 'PWD', 'DATA', 'OTHER')] + [tempfile.gettempdir()]"
    new, old = copy.workspace, source.workspace
    expected = [f"{new}/workspace", f"{new}/tmp", f"{new}/workspace", f"{new}/workspace/data", f"{old}x", f"{new}/tmp"]
    assert show(copy, told) == expected
    finish(source, copy)


def test_mapped_pages_are_the_copys_own(start: Any, tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    source = begun(start, tmp_path, "import numpy")
    run(
        source, "shared = numpy.memmap('m', 'f8', 'w+', shape=(5000,)); shared[:] = 1; frozen = numpy.memmap('m', 'f8', 'r', shape=(5000,))"
    )
    run(source, "own = numpy.memmap('m', 'f8', 'c', shape=(5000,)); own[4000] = 5")
    run(source, "arena = tempfile.TemporaryFile(); arena.truncate(10000); nameless = mmap.mmap(arena.fileno(), 10000); nameless[9000] = 7")
    run(source, "lost = open('lost', 'w+b'); lost.truncate(4096); pages = mmap.mmap(lost.fileno(), 4096); pages[5] = 9; os.unlink('lost')")
    run(
        source,
        "libc = ctypes.CDLL(None); libc.mmap.restype = ctypes.c_void_p; bare = os.open('bare', 0o102); os.ftruncate(bare, 100)",
    )
    run(
        source,
        "place = libc.mmap(None, 8192, 3, 1, bare, ctypes.c_long(0)); ctypes.memset(place, 66, 100); os.close(bare); os.unlink('bare')",
    )
    copy = copied(source, 1, tmp_path)
    read = "[*map(float, (shared[0], frozen[0], own[0], own[4000])), nameless[9000], pages[5], ctypes.string_at(place, 3).decode()]"
    before = [1, 1, 1, 5, 7, 9, "BBB"]
    assert show(copy, read) == before
    change = "shared[:] = {0}; nameless[9000] = {0}; pages[5] = {0}; ctypes.memset(place, 60 + {0}, 100)"
    run(source, change.format(2))
    assert show(copy, read) == before
    assert show(source, read) == [2, 2, 2, 5, 2, 2, ">>>"]
    run(copy, change.format(3))
    assert show(copy, read) == [3, 3, 3, 5, 3, 3, "???"]
    assert show(source, read) == [2, 2, 2, 5, 2, 2, ">>>"]
    assert show(copy, "float(numpy.fromfile('m')[9]), os.pread(arena.fileno(), 1, 9000)[0], os.pread(lost.fileno(), 1, 5)[0]") == {
        "$tuple": [3, 3, 3]
    }
    left = show(
        copy, "open('/proc/self/maps').read() + ' '.join(os.readlink(one) for one in Path('/proc/self/fd').iterdir() if one.exists())"
    )
    assert str(source.workspace) + "/" not in left
    finish(source, copy)


def test_a_library_that_was_loaded_from_the_workspace_goes_on_with_its_variables(start: Any, tmp_path: Path) -> None:
    import shutil
    import subprocess

    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    code = tmp_path / "count.c"
    code.write_text("int total = 40; static int *place = &total; int add(int n) { return *place += n; }")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "count.so", code], check=True)
    source = begun(start, tmp_path)
    shutil.copy(tmp_path / "count.so", source.workspace / "workspace" / "count.so")
    run(source, "library = ctypes.CDLL(os.path.abspath('count.so')); library.add(1)")
    copy = copied(source, 1, tmp_path)
    assert (show(copy, "library.add(1)"), show(source, "library.add(100)"), show(copy, "library.add(1)")) == (42, 141, 43)
    assert str(source.workspace) + "/" not in show(copy, "open('/proc/self/maps').read()")
    finish(source, copy)


def test_files_elsewhere_are_opened_again_and_stay_shared(start: Any, tmp_path: Path) -> None:
    source = begun(start, tmp_path)
    outside = tmp_path / "outside"
    outside.write_text("0123456789")
    run(source, f"f = open({str(outside)!r}, 'rb', buffering=0); f.seek(4); own = open('/proc/self/stat'); null = open('/dev/null', 'w')")
    copy = copied(source, 1, tmp_path)
    assert show(source, "f.read(3).decode()") == "456"
    assert show(copy, "f.read(2).decode(), f.tell()") == {"$tuple": ["45", 6]}
    assert show(copy, "int(own.read().split()[0]) == os.getpid()") is True
    finish(source, copy)
