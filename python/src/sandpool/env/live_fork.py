"""The fork of a live environment: what the source looks for, and how its child becomes a copy with files of its own."""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import sys
import traceback
from typing import TYPE_CHECKING

from sandpool.env.channel import Channel, close_all
from sandpool.env.descriptors import survey_descriptors
from sandpool.env.errors import refuse_copy, without_surrogates
from sandpool.env.folders import Folders
from sandpool.env.forking import fork_orphan
from sandpool.env.identity import enter_copy
from sandpool.env.mappings import Remapping, survey_mappings
from sandpool.env.memory_group import MemoryGroup
from sandpool.env.obstacles import find_obstacles
from sandpool.env.reopening import change_folder, reopen
from sandpool.env.row import check_seed

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.descriptors import Descriptors
    from sandpool.env.mappings import Mapping
    from sandpool.env.session import Session


class Source:
    """A process that stands still, as its copies will find it."""

    def __init__(self, folders: Folders, own: list[int]) -> None:
        self.folders = folders
        self.blockers: list[dict[str, Any]] = []
        self.descriptors: Descriptors = survey_descriptors(own, folders)
        files = self.descriptors.files
        self.mappings: list[Mapping]
        self.mappings, shared = survey_mappings(folders, files)
        self.blockers = find_obstacles(files) + self.descriptors.blockers
        if shared:
            self.blockers.append({"shared_memory": shared})
        try:
            self.folder: str | None = os.getcwd()
        except FileNotFoundError:
            self.folder = None
        self.random = sys.modules["random"].getstate() if "random" in sys.modules else None

    @property
    def must_wait(self) -> bool:
        """Whether the copy reads what the source would change by going on: files without a name, pages of its memory."""
        return any(file.content >= 0 for file in self.descriptors.files) or any(
            mapping.path is None or not mapping.shared for mapping in self.mappings
        )

    def release(self) -> None:
        close_all([file.content for file in self.descriptors.files if file.content >= 0])


def fork_live(session: Session, identity: Any, request: dict[str, Any]) -> bytes:
    """Copy this process as it is; the source answers the request and goes on waiting, the copy says hello on its own channel."""
    expected = 5 if request.get("isolated") else 2
    descriptors = session.channel.take_descriptors(expected)
    if len(descriptors) != expected:
        close_all(descriptors)
        raise ValueError(
            f"a live fork came with {len(descriptors)} descriptors; expected {expected}: "
            + ", ".join(("the copy's channel", "its stderr", "its workspace", "its tmp", "its shm")[:expected])
        )
    try:
        check_seed(request.get("reseed"))
        source = _survey(session, descriptors)
        copy = Copy(request, descriptors)
    except BaseException:
        close_all(descriptors)
        raise
    if isinstance(source, list) or source.blockers:
        copy.release()
        if isinstance(source, list):
            return refuse_copy(identity, source)
        source.release()
        return refuse_copy(identity, source.blockers)
    try:
        reply = _fork(session, identity, copy, source)
    except OSError:
        copy.release()
        source.release()
        raise
    if session.channel is not copy.channel:
        copy.release()
        source.release()
    return reply


def _survey(session: Session, descriptors: list[int]) -> Source | list[dict[str, Any]]:
    """The source, or what it says without a look."""
    folders = session.folders
    if session.is_template:
        return [{"reason": "this process is a template, which has no environment to copy"}]
    if folders is None:
        return [{"spawned": True}]
    if folders.isolated and not folders.branching:
        return [{"branching": False}]
    channel = session.channel
    return Source(folders, [channel.incoming, channel.outgoing, *channel.descriptors, *descriptors])


class Copy:
    """What a copy needs to begin, made in the source: every page that the copy itself writes to becomes one of its own."""

    def __init__(self, request: dict[str, Any], descriptors: list[int]) -> None:
        self.request = request
        self.first_line = b'{"id":0,"ok":true,"index":%d,"pid":%%d,"reseeded":%%b}\n' % request["index"]
        channel, self.stderr, *self.mounts = descriptors
        self.folders = Folders(request, self.stderr)
        self.group = MemoryGroup(request)
        self.channel = Channel(channel, channel)

    def release(self) -> None:
        """In the source: none of it is its own."""
        self.channel.close()
        close_all([self.stderr, *self.mounts])


def _fork(session: Session, identity: Any, copy: Copy, source: Source) -> bytes:
    hold = os.pipe() if source.must_wait else None
    collects = gc.isenabled()
    gc.disable()  # in the copy it would touch, and so copy, every page with an object
    try:
        pid = fork_orphan(copy.group, source.folders.log)
        if pid == 0:
            return _become_copy(session, copy, source, hold)
    except OSError:
        close_all(list(hold or ()))
        raise
    finally:
        if collects:
            gc.enable()
    if hold is not None:
        os.close(hold[1])
        os.read(hold[0], 1)  # ends with the copy at the latest
        os.close(hold[0])
    return f'{{"id":{json.dumps(identity)},"ok":true,"pid":{pid}}}\n'.encode()


def _become_copy(session: Session, copy: Copy, source: Source, hold: tuple[int, int] | None) -> bytes:
    """In the forked child: take its identity and its files, and give its first line; end without it where that fails."""
    try:
        copy.group.check()
        session.channel.close()
        session.channel = copy.channel
        session.folders = copy.folders
        enter_copy(copy.request, copy.mounts)
        close_all(copy.mounts)
        _take_files(source, copy.folders, copy.stderr)
        if hold is not None:
            close_all(list(hold))
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
