from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
from pathlib import Path

import pytest

from sandpool import InvalidValueError
from sandpool.archive.pack import pack_environment

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

HELPER = sorted(f"sandpool/env/{path.name}" for path in (Path(__file__).parents[2] / "src" / "sandpool" / "env").glob("*.py"))


def unpack(environment: Path) -> tuple[str, str, list[tarfile.TarInfo], dict[str, bytes]]:
    with pack_environment(environment) as archive:
        data = archive.data.read()
        assert archive.size_bytes == len(data)
        assert archive.sha256 == hashlib.sha256(data).hexdigest()
        with tarfile.open(fileobj=io.BytesIO(zstd.decompress(data))) as tar:
            members = tar.getmembers()
            return archive.sha256, archive.entry, members, {m.name: tar.extractfile(m).read() for m in members if m.isfile()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "walk"
    (root / "assets").mkdir(parents=True)
    (root / "env.py").write_text("print('é')\n")
    (root / "assets" / "map.bin").write_bytes(bytes(range(256)))
    (root / "B.txt").write_text("")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o750)
    (root / "assets" / "again").symlink_to("../env.py")
    for left_out in (".git/config", "__pycache__/env.pyc", ".venv/bin/python", "node_modules/x.js", "assets/__pycache__/y", "old.pyc"):
        (root / left_out).parent.mkdir(parents=True, exist_ok=True)
        (root / left_out).write_text("left out")
    return root


def test_entries_are_sorted_and_have_no_owner_time_or_odd_mode(folder: Path) -> None:
    _, entry, members, contents = unpack(folder)
    assert entry == "env.py"
    assert [member.name for member in members] == [
        "B.txt", "assets", "assets/again", "assets/map.bin", "env.py", "run", "sandpool", "sandpool/__init__.py", "sandpool/env", *HELPER,
    ]  # fmt: skip
    assert {(member.mtime, member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, 0, "", "")}
    assert {member.name: oct(member.mode) for member in members if member.isfile()} == {
        "B.txt": "0o644", "assets/map.bin": "0o644", "env.py": "0o644", "run": "0o755", "sandpool/__init__.py": "0o644",
        **dict.fromkeys(HELPER, "0o644"),
    }  # fmt: skip
    assert contents["assets/map.bin"] == bytes(range(256))
    assert contents["sandpool/__init__.py"] == b""
    assert members[2].linkname == "../env.py"


def test_the_same_files_give_the_same_hash_whatever_their_times_and_owners(folder: Path, tmp_path: Path) -> None:
    first = unpack(folder)[0]
    os.utime(folder / "env.py", (1, 1))
    (folder / "env.py").chmod(0o600)
    assert unpack(folder)[0] == first
    (folder / "env.py").write_text("print('e')\n")
    assert unpack(folder)[0] != first


@pytest.mark.parametrize("own", ["sandpool/env.py", "sandpool/env/__init__.py"])
def test_a_helper_of_the_folders_own_is_kept(folder: Path, own: str) -> None:
    (folder / own).parent.mkdir(parents=True)
    (folder / "sandpool" / "__init__.py").touch()
    (folder / own).write_text("mine")
    contents = unpack(folder)[3]
    assert {name: text for name, text in contents.items() if name.startswith("sandpool")} == {own: b"mine", "sandpool/__init__.py": b""}


def test_a_file_is_packed_alone_with_the_helper(folder: Path) -> None:
    _, entry, members, _ = unpack(folder / "env.py")
    assert entry == "env.py"
    assert [member.name for member in members] == ["env.py", "sandpool", "sandpool/__init__.py", "sandpool/env", *HELPER]


def test_an_executable_env_is_the_program_where_there_is_no_env_py(folder: Path) -> None:
    (folder / "env.py").unlink()
    (folder / "assets" / "again").unlink()
    (folder / "run").rename(folder / "env")
    assert unpack(folder)[1] == "env"


def test_long_and_foreign_names_survive(folder: Path) -> None:
    name = "ü" * 60 + "/" + "n" * 120
    (folder / name).parent.mkdir()
    (folder / name).write_text("deep")
    assert unpack(folder)[3][name] == b"deep"


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "assets/../../outside", "through/outside"])
def test_a_link_that_leaves_the_folder_is_refused_by_name(folder: Path, target: str) -> None:
    (folder.parent / "outside").write_text("secret")
    if target.startswith("through"):
        (folder / "assets" / "deep").mkdir()
        (folder / "through").symlink_to("assets/deep/../..")
        target = "through/../outside"
    (folder / "leak").symlink_to(target)
    with pytest.raises(InvalidValueError, match=r"leak leads to .*outside the environment's folder") as caught:
        unpack(folder)
    assert caught.value.code == "bad_environment"


def test_a_pipe_is_refused_by_name(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidValueError, match="pipe is a device, socket or pipe"):
        unpack(folder)


@pytest.mark.parametrize(
    ("make", "received"),
    [
        (lambda folder: folder / "nowhere", "does not exist"),
        (lambda folder: folder / "assets", "holds neither env.py nor an executable env"),
        (lambda folder: folder / "B.txt", "neither \\*.py nor executable"),
    ],
)
def test_a_folder_without_a_program_is_refused(folder: Path, make: object, received: str) -> None:
    with pytest.raises(InvalidValueError, match=received) as caught:
        unpack(make(folder))
    assert "To go on" in str(caught.value)
