"""Local files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from sandpool.errors import InvalidValueError

_NEW_MODE = 0o666


@contextmanager
def write_whole(target: Path) -> Iterator[IO[bytes]]:
    """Give a file beside `target`; it is synced and takes its place once the block has ended well, and is gone otherwise."""
    beside = _beside(target)
    mode = _mode_of(target)
    descriptor = _create(beside, _NEW_MODE if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            beside.chmod(mode)
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


@contextmanager
def make_whole(target: Path) -> Iterator[Path]:
    """Give a folder beside `target`, which must not exist; it takes its place once the block has ended well, and is gone otherwise."""
    beside = _beside(target)
    try:
        beside.mkdir(parents=False)
    except OSError as error:
        raise _cannot(beside, error) from error
    try:
        yield beside
        beside.rename(target)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _beside(target: Path) -> Path:
    return target.parent / f".{target.name[:80]}.{secrets.token_hex(6)}.part"


def _mode_of(target: Path) -> int | None:
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        return None


def _create(path: Path, mode: int) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except OSError as error:
        raise _cannot(path, error) from error


def _cannot(path: Path, error: OSError) -> InvalidValueError:
    return InvalidValueError(
        f"The local path {str(path)!r:.200} cannot be made: {error.strerror}.", hint="Does its folder exist, and may you write there?"
    )
