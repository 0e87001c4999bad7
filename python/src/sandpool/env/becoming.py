"""In the child of a live fork: how it becomes a copy with an identity and files of its own."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import traceback
from typing import TYPE_CHECKING

from sandpool.env.channel import Channel, close_all
from sandpool.env.errors import without_surrogates
from sandpool.env.folders import Folders
from sandpool.env.identity import enter_copy
from sandpool.env.mappings import Remapping
from sandpool.env.memory_group import MemoryGroup
from sandpool.env.reopening import change_folder, reopen

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.live_fork import Source
    from sandpool.env.session import Session


class Copy:
    """What a copy needs to begin, made in the source: every page that the copy itself writes to becomes one of its own."""

    def __init__(self, request: dict[str, Any], descriptors: list[int]) -> None:
        self.request = request
        self.answer = b'{"id":%s,"ok":true,"pid":%%d}\n' % json.dumps(request.get("id")).encode()
        self.first_line = b'{"id":0,"ok":true,"index":%d,"pid":%%d,"reseeded":%%b}\n' % request["index"]
        self.channel, self.stderr, *self.mounts = descriptors
        self.folders = Folders(request, self.stderr)
        self.group = MemoryGroup(request)
        self.descriptors = [*descriptors, *self.group.descriptors]


def become_copy(session: Session, copy: Copy, source: Source, foreign: list[int]) -> bytes:
    """Take an identity and files, and give the first line; end without it where that fails.

    The source may go on once the `foreign` descriptors are closed.
    """
    try:
        copy.group.check()
        session.channel.close()
        session.channel = Channel(copy.channel, copy.channel)
        session.folders = copy.folders
        enter_copy(copy.request, copy.mounts)
        close_all(copy.mounts)
        _take_files(source, copy.folders, copy.stderr)
        close_all(foreign)
        if source.random is not None:
            sys.modules["random"].setstate(source.random)
        seed = copy.request.get("reseed")
        reseeded = b"null" if seed is None else json.dumps(session.reseed(seed)).encode()
        os.close(copy.stderr)
        return copy.first_line % (os.getpid(), reseeded)
    except BaseException:
        with contextlib.suppress(OSError):
            os.write(copy.stderr, without_surrogates(traceback.format_exc()).encode())
        os._exit(1)  # nothing that the source registered for its end is this process's to do


def _take_files(source: Source, copy: Folders, stderr: int) -> None:
    old = source.folders
    for descriptor, inheritable in source.descriptors.log.items():
        os.dup2(stderr, descriptor, inheritable)
    for file in source.descriptors.files:
        reopen(file, old, copy)
    if source.mappings:
        Remapping(source.mappings, old, copy).run()
    source.release()
    close_all([file.copied for file in source.descriptors.files if file.copied >= 0])
    change_folder(None if source.folder is None else old.moved(source.folder, copy), copy)
    if not copy.isolated:
        _move_texts(old, copy)


def _move_texts(old: Folders, copy: Folders) -> None:
    """Where nothing is mounted the copy's folder has another path; variables of the process that name the source's are changed."""
    atexit._clear()  # its functions may know the source's folder by name, and clean up there
    for name, value in list(os.environ.items()):
        if old.moved(value, copy) != value:
            os.environ[name] = old.moved(value, copy)
    known = vars(sys.modules["tempfile"]) if "tempfile" in sys.modules else {}
    if isinstance(known.get("tempdir"), str):
        known["tempdir"] = old.moved(known["tempdir"], copy)
