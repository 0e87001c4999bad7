from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import sandpool
from machines.conftest import Cutter
from sandpool import Machine, Sandpool

MIB = 1 << 20


@pytest.fixture
def folder(client: Sandpool, box: Machine, request: pytest.FixtureRequest) -> str:
    """A folder inside, of the test's own."""
    path = f"/root/{request.node.name[:60].rstrip('/')}"
    client.machines.files.make(box, path)
    return path


def test_a_file_goes_up_and_down_with_its_bytes_its_mode_and_one_hash(client: Sandpool, box: Machine, folder: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    source = tmp_path / "program"
    source.write_bytes(content)
    source.chmod(0o750)
    sent = client.machines.files.upload(box, source, f"{folder}/deep/program")
    assert (sent.bytes, sent.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert client.machines.files.stat(box, f"{folder}/deep/program").mode & 0o777 == 0o750
    got = client.machines.files.download(box, f"{folder}/deep/program", tmp_path / "copy")
    assert got == sent
    assert (tmp_path / "copy").read_bytes() == content
    assert client.machines.exec(box, ["sha256sum", f"{folder}/deep/program"]).stdout.split()[0] == sent.sha256


def test_bytes_text_files_and_pipes_can_be_uploaded(client: Sandpool, box: Machine, folder: str) -> None:
    files = client.machines.files
    files.write(box, f"{folder}/text", "é")
    files.write(box, f"{folder}/empty", b"")
    files.upload(box, io.BytesIO(b"object"), f"{folder}/object", mode=0o600)
    reading, writing = os.pipe()
    os.write(writing, b"pipe")
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        files.upload(box, pipe, f"{folder}/pipe")
    assert {entry.name: (entry.size, entry.mode & 0o777) for entry in files.list(box, folder)} == {
        "empty": (0, 0o644),
        "object": (6, 0o600),
        "pipe": (4, 0o644),
        "text": (2, 0o644),
    }
    assert files.read_text(box, f"{folder}/text") == "é"
    assert files.read(box, f"{folder}/empty") == b""
    assert files.read(box, f"{folder}/pipe") == b"pipe"


def test_a_folder_goes_up_and_down_with_modes_links_and_long_names(client: Sandpool, box: Machine, folder: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "inner" / ("n" * 200) / ("m" * 200)).mkdir(parents=True)
    (source / "inner" / ("n" * 200) / ("m" * 200) / "file").write_bytes(b"x" * 100_000)
    (source / "run").write_text("#!/bin/sh\necho ran\n")
    (source / "run").chmod(0o755)
    (source / "empty").mkdir()
    (source / "nothing").write_bytes(b"")
    (source / "link").symlink_to("inner")
    sent = client.machines.files.upload(box, source, f"{folder}/tree")
    # Folders inner, n…, m… and empty; files file, run and nothing; one link.
    assert (sent.entries, sent.bytes) == (8, 100_000 + 19)
    assert client.machines.exec(box, [f"{folder}/tree/run"]).stdout == "ran\n"
    got = client.machines.files.download(box, f"{folder}/tree", tmp_path / "copy")
    assert (got.entries, got.bytes) == (8, 100_019)
    assert subprocess.run(["diff", "-r", "--no-dereference", source, tmp_path / "copy"], check=False).returncode == 0
    assert (tmp_path / "copy" / "run").stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "source"]


def test_a_download_into_a_folder_that_exists_adds_to_it(client: Sandpool, box: Machine, folder: str, tmp_path: Path) -> None:
    client.machines.files.write(box, f"{folder}/tree/new", "new")
    client.machines.files.write(box, f"{folder}/tree/both", "inside")
    (tmp_path / "both").write_text("local")
    (tmp_path / "old").write_text("old")
    client.machines.files.download(box, f"{folder}/tree", tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"new": "new", "both": "inside", "old": "old"}
    client.machines.files.download(box, f"{folder}/tree/new", f"{tmp_path}/")
    assert (tmp_path / "new").read_text() == "new"


def test_row_25_a_large_file_goes_both_ways_through_flat_memory(running_server: dict[str, str], box: Machine, tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        import resource, sys
        from sandpool import Sandpool
        files = Sandpool({running_server["url"]!r}, {running_server["key"]!r}).machines.files
        files.write({box.id!r}, "/root/large", b"warm")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sent = files.upload({box.id!r}, sys.argv[1], "/root/large")
        got = files.download({box.id!r}, "/root/large", sys.argv[2])
        assert sent == got, (sent, got)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """)
    large = tmp_path / "large"
    with large.open("wb") as file:
        for number in range(96):
            file.write(hashlib.sha256(bytes([number])).digest() * (MIB // 32))
    done = subprocess.run([sys.executable, "-c", program, large, tmp_path / "copy"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 24 * 1024  # KiB; the file has 96 MiB
    assert subprocess.run(["cmp", large, tmp_path / "copy"], check=False).returncode == 0


def test_row_23_an_upload_that_breaks_off_leaves_what_was_there(
    client: Sandpool, through_cutter: Sandpool, cutter: Cutter, box: Machine, folder: str
) -> None:
    client.machines.files.write(box, f"{folder}/file", "before")

    class Breaking(io.RawIOBase):
        pieces = 0

        def read(self, size: int = -1) -> bytes:
            self.pieces += 1
            if self.pieces == 8:
                # What was sent so far may stand before a connection that nobody has accepted yet.
                while cutter.connections == 0:
                    time.sleep(0.01)
                cutter.cut()
            return b"x" * 65_536 if self.pieces < 200 else b""

    with pytest.raises(sandpool.ConnectionLostError):
        through_cutter.machines.files.upload(box, Breaking(), f"{folder}/file")
    assert client.machines.files.read_text(box, f"{folder}/file") == "before"
    assert [entry.name for entry in client.machines.files.list(box, folder)] == ["file"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_download_that_breaks_off_leaves_what_was_there(
    client: Sandpool, through_cutter: Sandpool, cutter: Cutter, box: Machine, folder: str, tmp_path: Path, kind: str
) -> None:
    client.machines.files.write(box, f"{folder}/inner/file", b"x" * (4 * MIB))
    (tmp_path / "file").write_text("before")
    cutter.cut_after_bytes = 2 * MIB
    remote, target = (f"{folder}/inner/file", "file") if kind == "file" else (folder, "folder")
    with pytest.raises(sandpool.ConnectionLostError):
        through_cutter.machines.files.download(box, remote, tmp_path / target)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "before"}


def test_files_are_listed_moved_and_removed(client: Sandpool, box: Machine, folder: str) -> None:
    files = client.machines.files
    files.write(box, f"{folder}/a/b/c", "c")
    assert [entry.path for entry in files.list(box, folder, depth=3)] == [f"{folder}/a", f"{folder}/a/b", f"{folder}/a/b/c"]
    files.move(box, f"{folder}/a/b/c", f"{folder}/d")
    assert [(entry.name, entry.kind) for entry in files.list(box, folder)] == [("a", "folder"), ("d", "file")]
    files.write(box, f"{folder}/e", "e")
    with pytest.raises(sandpool.MachineFileExistsError):
        files.move(box, f"{folder}/e", f"{folder}/d")
    files.move(box, f"{folder}/e", f"{folder}/d", replace=True)
    assert files.read_text(box, f"{folder}/d") == "e"
    files.remove(box, f"{folder}/a", recursive=True)
    assert [entry.name for entry in files.list(box, folder)] == ["d"]


def test_a_long_list_comes_whole(client: Sandpool, box: Machine, folder: str) -> None:
    client.machines.exec(box, f"cd '{folder}' && seq 1 12000 | xargs touch", check=True)
    names = [entry.name for entry in client.machines.files.list(box, folder)]
    assert sorted(names, key=int) == [str(number) for number in range(1, 12_001)]


def test_what_is_not_there_or_not_allowed_is_an_error_of_its_kind(client: Sandpool, box: Machine, folder: str, tmp_path: Path) -> None:
    files = client.machines.files
    with pytest.raises(FileNotFoundError):
        files.read(box, f"{folder}/nothing")
    with pytest.raises(FileNotFoundError):
        files.download(box, f"{folder}/nothing", tmp_path / "nothing")
    with pytest.raises(PermissionError) as caught:
        files.write(box, f"{folder}/theirs", "x", user="1234")
    assert type(caught.value) is sandpool.MachinePermissionError
    with pytest.raises(sandpool.MachineFileError):
        files.read(box, folder)
    with pytest.raises(sandpool.InvalidValueError, match="absolute"):
        files.read(box, "relative")
    with pytest.raises(sandpool.InvalidValueError):
        files.upload(box, tmp_path / "nothing", f"{folder}/x")
    with pytest.raises(sandpool.LimitError):
        files.read(box, "/dev/../proc/self/mounts", limit_bytes=3)
    assert list(tmp_path.iterdir()) == []


def test_a_watch_tells_what_happens_below_a_path(client: Sandpool, box: Machine, folder: str) -> None:
    seen: list[tuple[str, str | None]] = []
    with client.machines.files.watch(box, folder) as changes:
        client.machines.files.make(box, f"{folder}/made")
        end = time.monotonic() + 20
        for change in changes:
            seen.append((change.kind, change.path))
            if ("created", f"{folder}/made") in seen or time.monotonic() > end:
                break
    assert ("created", f"{folder}/made") in seen
