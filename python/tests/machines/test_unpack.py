from __future__ import annotations

import io
import os
import tarfile
import warnings
from pathlib import Path

import pytest

import sandpool
from sandpool.files.unpack import Unpacker


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", link: str = "", mode: int = 0o644
) -> tuple[tarfile.TarInfo, bytes]:
    header = tarfile.TarInfo(name)
    header.type, header.size, header.linkname, header.mode = kind, len(content), link, mode
    return header, content


def tar_of(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=form) as tar:
        for header, content in entries:
            tar.addfile(header, io.BytesIO(content))
    return data.getvalue()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "target"
    folder.mkdir()
    (tmp_path / "canary").write_text("untouched")
    return folder


def unpack(target: Path, data: bytes, limit_bytes: int | None = None) -> Unpacker:
    unpacker = Unpacker(target, limit_bytes)
    unpacker.unpack(io.BytesIO(data))
    return unpacker


def assert_nothing_escaped(target: Path) -> None:
    assert {path.name for path in target.parent.iterdir()} == {"target", "canary"}
    assert (target.parent / "canary").read_text() == "untouched"


def test_files_folders_and_links_below_are_unpacked(target: Path) -> None:
    data = tar_of(
        entry("a", tarfile.DIRTYPE, mode=0o000),
        entry("a/file", content=b"one", mode=0o4755),
        entry("a/up", tarfile.SYMTYPE, link="../b/other"),
        entry("b/other", content=b"two"),
        entry("b/again", tarfile.LNKTYPE, link="a/file"),
        entry("./", tarfile.DIRTYPE),
    )
    unpacker = unpack(target, data)
    assert (unpacker.entries, unpacker.content_bytes) == (6, 6)
    assert (target / "a/up").read_text() == "two"
    assert (target / "b/again").read_text() == "one"
    assert (target / "a/file").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("name", ["../canary", "/etc/canary", "a/../../canary", "..", "a/..", "x/" * 1100 + "f"])
def test_class_19_and_20_a_path_that_leaves_the_folder_is_refused(target: Path, name: str, form: int) -> None:
    with pytest.raises(sandpool.ReplyError):
        unpack(target, tar_of(entry(name, content=b"evil"), form=form))
    assert_nothing_escaped(target)


@pytest.mark.parametrize("link", ["..", "../canary", "/etc/passwd", "a/../../..", "", "b/../.."])
def test_class_20_a_link_that_leads_out_is_left_out_with_a_warning(target: Path, link: str) -> None:
    header = entry("out", tarfile.SYMTYPE, link=link)
    with pytest.warns(sandpool.SandpoolWarning, match="lead out of the folder"):
        unpack(target, tar_of(header, entry("after", content=b"here")))
    assert [path.name for path in target.iterdir()] == ["after"]


def test_class_20_nothing_is_written_through_a_link(target: Path) -> None:
    inside = target / "inside"
    inside.mkdir()
    data = tar_of(entry("link", tarfile.SYMTYPE, link="inside"), entry("link/file", content=b"evil"))
    with pytest.raises(sandpool.ReplyError, match="below what is no folder"):
        unpack(target, data)
    assert list(inside.iterdir()) == []


def test_class_20_a_link_that_stood_there_before_is_replaced_not_followed(target: Path) -> None:
    (target / "file").symlink_to(target.parent / "canary")
    (target / "folder").symlink_to(target.parent)
    unpack(target, tar_of(entry("file", content=b"mine")))
    assert (target / "file").read_text() == "mine"
    assert not (target / "file").is_symlink()
    with pytest.raises(sandpool.ReplyError):
        unpack(target, tar_of(entry("folder/canary", content=b"evil")))
    with pytest.raises(sandpool.ReplyError):
        unpack(target, tar_of(entry("folder", tarfile.DIRTYPE)))
    assert_nothing_escaped(target)


def test_class_20_another_name_of_what_is_outside_is_refused(target: Path) -> None:
    for link in ("../canary", "/etc/passwd", "missing", ""):
        with pytest.raises(sandpool.ReplyError):
            unpack(target, tar_of(entry("name", tarfile.LNKTYPE, link=link)))
    # Nor is a second name written into: the file of the first stays as it was.
    unpack(target, tar_of(entry("one", content=b"1"), entry("two", tarfile.LNKTYPE, link="one"), entry("two", content=b"2")))
    assert ((target / "one").read_text(), (target / "two").read_text()) == ("1", "2")
    assert_nothing_escaped(target)


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_class_23_a_device_or_fifo_is_refused(target: Path, kind: bytes) -> None:
    with pytest.raises(sandpool.ReplyError, match="no file, folder or link"):
        unpack(target, tar_of(entry("special", kind)))
    assert list(target.iterdir()) == []


def test_class_21_a_limit_stops_in_the_middle(target: Path) -> None:
    with pytest.raises(sandpool.LimitError):
        unpack(target, tar_of(entry("small", content=b"x" * 600), entry("large", content=b"x" * 600)), limit_bytes=1000)
    assert [path.name for path in target.iterdir()] == ["small"]


def test_class_22_a_header_of_any_size_is_not_read_into_memory(target: Path) -> None:
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 1 << 33
    with pytest.raises(sandpool.ReplyError, match="header of 8589934592 bytes"):
        unpack(target, header.tobuf(tarfile.GNU_FORMAT))


def test_class_22_a_sparse_file_may_not_claim_any_size(target: Path) -> None:
    gnu = tarfile.TarInfo("sparse")
    gnu.type = tarfile.GNUTYPE_SPARSE
    with pytest.raises(sandpool.ReplyError, match="sparse"):
        unpack(target, gnu.tobuf(tarfile.GNU_FORMAT))
    pax, _ = entry("sparse")
    pax.pax_headers = {"GNU.sparse.map": "0,0,1000000000000,0", "GNU.sparse.size": "1000000000000", "GNU.sparse.name": "sparse"}
    with pytest.raises(sandpool.ReplyError):
        unpack(target, tar_of((pax, b""), form=tarfile.PAX_FORMAT))
    assert list(target.iterdir()) == []


def test_a_tar_that_is_damaged_or_cut_is_not_taken_for_a_short_one(target: Path) -> None:
    whole = tar_of(entry("one", content=b"x" * 600), entry("two", content=b"y" * 600))
    for damaged in (
        whole[: 512 + 1024 + 512 + 100],  # inside the second file
        whole[: 512 + 1024 + 100],  # inside the second header
        whole[: 512 + 1024],  # before the second header, without an end
        whole[: 512 + 1024] + b"\x01" * 512 + whole[512 + 1024 + 512 :],  # the second header overwritten
        b"",
    ):
        with pytest.raises(sandpool.ReplyError):
            unpack(target, damaged)


def test_names_that_are_no_text_are_kept_to_the_byte(target: Path) -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unpack(target, tar_of(entry(name, content=b"x")))
    assert os.listdir(os.fsencode(target)) == [b"caf\xe9"]  # noqa: PTH208 (pathlib has no names of bytes)
