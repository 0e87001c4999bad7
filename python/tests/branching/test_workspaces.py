"""Each copy has files of its own, within its limits."""

from __future__ import annotations

from pathlib import Path

import pytest

import sandpool
from branching.conftest import Make, Write
from branching.rehearsal import Rehearsal

FILL = 8
ENOSPC = 28


def test_a_workspace_at_its_limit_is_copied_and_the_copy_is_at_its_limit(make: Make, stateful: Path) -> None:
    rehearsal = Rehearsal(make(stateful, 3, workspace="4MiB"), 6, lambda luck: luck.randrange(4))
    rehearsal.step([0], [1])
    rehearsal.step([0], [FILL])
    full = rehearsal.rows[0].seen
    assert (full["info"]["errno"], full["reward"] > 3_000_000) == (ENOSPC, True)
    rehearsal.fork([(0, 1)])
    rehearsal.save([0])
    rehearsal.restore([(0, 2)])
    rehearsal.step([0, 1, 2], [FILL] * 3)
    # Not one more block fits into any of the three, and the file's bytes are the same.
    assert [rehearsal.rows[row].seen["info"] for row in range(3)] == [full["info"]] * 3
    rehearsal.verify(make(stateful, 3, workspace="4MiB"))


def test_a_file_without_a_name_that_fills_the_workspace_is_copied_once(make: Make, write: Write) -> None:
    program = """
        import os
        from sandpool.env import serve

        def reset(seed):
            return [0.0]

        def step(action):
            return [0.0], 0.0, False, False, {}

        def fill():
            global file
            file = os.open("gone", os.O_CREAT | os.O_RDWR)
            os.unlink("gone")
            written = 0
            try:
                while True:
                    written += os.write(file, bytes([written >> 12 & 255]) * 4096)
            except OSError as error:
                return [written, error.errno]

        def look():
            pages = range(os.fstat(file).st_size >> 12)
            return [len(pages) << 12, os.statvfs(".").f_bfree, all(os.pread(file, 1, page << 12)[0] == page & 255 for page in pages)]

        serve(reset=reset, step=step)
    """
    pool = make(write(program), 2, workspace="4MiB")
    written, errno = pool.call("fill", where=[0])[0]
    assert (written > 3_000_000, errno) == (True, ENOSPC)
    pool.fork(0, 1)
    assert list(pool.call("look")) == [[written, 0, True]] * 2


FILES = """
    import os, stat
    from pathlib import Path
    from sandpool.env import serve

    class Files:
        def reset(self, seed=None, options=None):
            return [0.0]
        def step(self, action):
            return [0.0], 0.0, False, False, {}
        def make(self):
            Path("sub").mkdir(0o750)
            Path("sub/plain").write_bytes(b"abc")
            os.link("sub/plain", "hard")
            os.symlink("sub/plain", "soft")
            os.symlink("/etc/passwd", "outside")
            os.mkfifo("pipe", 0o600)
            with open("sparse", "wb") as file:
                file.truncate(1 << 30)
                file.seek(1 << 29)
                file.write(b"x")
            os.utime("sub/plain", ns=(10**18, 10**18 + 7))
            os.chmod("sub/plain", 0o640)
            Path("/tmp/private").write_text("t")
            Path("/dev/shm/private").write_text("s")
        def change(self):
            Path("sub/plain").write_bytes(b"changed")
            Path("/tmp/private").unlink()
            Path("new").touch()
        def look(self):
            found = {}
            for root in ("/workspace", "/tmp", "/dev/shm"):
                for folder, names, files in os.walk(root):
                    for name in names + files:
                        path = Path(folder, name)
                        status = path.lstat()
                        text = os.readlink(path) if path.is_symlink() else path.read_bytes()[:9].decode() if 0 < status.st_size < 10 else ""
                        found[str(path)] = [
                            oct(status.st_mode), status.st_nlink, status.st_size, status.st_uid == os.getuid(), text,
                            status.st_mtime_ns if path.name == "plain" else 0, status.st_blocks if path.name == "sparse" else 0,
                        ]
            return found

    serve(make=lambda config: Files())
"""


def test_files_of_every_kind_are_copied_and_then_belong_to_the_copy(make: Make, write: Write) -> None:
    pool = make(write(FILES), 3)
    assert pool.call("make", where=[0]).errors == {}
    (state,) = pool.save(where=[0])
    made = pool.call("look", where=[0])[0]
    assert made["/workspace/sparse"][2] == 1 << 30
    pool.fork(0, 1)
    assert pool.call("look", where=[1])[1] == made
    assert pool.call("change", where=[0]).errors == {}
    assert pool.call("look", where=[1])[1] == made
    pool.restore([state], where=[2])
    assert pool.call("look", where=[2])[2] == made
    changed = pool.call("look", where=[0])[0]
    # Both names of the hard link changed.
    assert [changed[f"/workspace/{name}"][4] for name in ("sub/plain", "hard")] == ["changed"] * 2


def test_what_stands_in_the_way_of_a_copy_is_named_and_the_row_goes_on(make: Make) -> None:
    examples = Path(__file__).parents[3] / "examples"
    shell = make(examples / "shell_task", 2, step_timeout=60)
    # The environment ends what is left of a command's group, so the command waits until the sleeper has left it.
    shell.step(["setsid sleep 3600 & echo $! > number; while ! grep -q sleep /proc/$!/comm; do :; done"], where=[0])
    with pytest.raises(sandpool.SandpoolError, match="sleep") as caught:
        shell.fork(0, 1)
    assert caught.value.code == "fork_unsupported"
    assert shell.step(["kill $(cat number); while kill -0 $(cat number) 2> /dev/null; do :; done"], where=[0]).errors == {}
    shell.step(["cat number"], where=[0])
    shell.fork(0, 1)
    observations = shell.step(["cat number"] * 2).obs
    assert observations[0] == observations[1]
    perl = make(examples / "guess_perl", 2)
    with pytest.raises(sandpool.SandpoolError, match=r"spawned|language") as caught:
        perl.fork(0, 1)
    assert caught.value.code == "fork_unsupported"
    assert perl.step([50, 50]).errors == {}
