"""The fork of a live environment: what the source looks for, and its copies, which are all of one moment."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from sandpool.env.becoming import Copy, become_copy
from sandpool.env.channel import close_all
from sandpool.env.descriptors import survey_descriptors
from sandpool.env.errors import error_line, kind_of, refuse_copy
from sandpool.env.exiting import flush_standard_streams
from sandpool.env.forking import fork_orphan
from sandpool.env.lines import parse_line
from sandpool.env.mappings import survey_mappings
from sandpool.env.obstacles import find_obstacles
from sandpool.env.row import check_seed

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.descriptors import Descriptors
    from sandpool.env.folders import Folders
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


class Asked:
    """One request for a copy, and the descriptors that came with it."""

    def __init__(self, session: Session, request: dict[str, Any]) -> None:
        expected = 5 if request.get("isolated") else 2
        self.request = request
        self.descriptors = session.channel.take_descriptors(expected)
        try:
            self.check(expected)
        except ValueError:
            close_all(self.descriptors)
            raise

    def check(self, expected: int) -> None:
        check_seed(self.request.get("reseed"))
        if len(self.descriptors) != expected:
            raise ValueError(
                f"a live fork came with {len(self.descriptors)} descriptors; expected {expected}: "
                + ", ".join(("the copy's channel", "its stderr", "its workspace", "its tmp", "its shm")[:expected])
            )

    @property
    def identity(self) -> Any:
        return self.request.get("id")


def fork_live(session: Session, request: dict[str, Any]) -> bytes:
    """Copy this process as it is; the source answers the requests and goes on waiting, each copy says hello on its own channel.

    Requests of which each announces `more` are done together: the process is looked at once, and does little between two
    forks, for whatever it writes to is a page more that it holds for the copies before.
    """
    answers: list[bytes] = []
    asked = _read_all(session, request, answers)
    collects = gc.isenabled()
    gc.disable()  # in a copy it would write to every page with an object
    try:
        if asked:
            _copy_all(session, asked, answers)
    finally:
        if collects:
            gc.enable()
    return b"".join(answers)


def _read_all(session: Session, request: dict[str, Any], answers: list[bytes]) -> list[Asked]:
    asked = []
    while True:
        try:
            asked.append(Asked(session, request))
        except ValueError as error:
            answers.append(error_line(request.get("id"), kind_of(error), error))
        if not request.get("more"):
            return asked
        line = session.channel.read_line()
        if not line:
            session.leave()
        request = parse_line(line)


def _copy_all(session: Session, asked: list[Asked], answers: list[bytes]) -> None:
    """Adds the answer to each; in a copy they are that copy's first line instead."""
    descriptors = [descriptor for one in asked for descriptor in one.descriptors]
    try:
        source = _survey(session, descriptors)
    except Exception as error:
        close_all(descriptors)
        answers += [error_line(one.identity, kind_of(error), error) for one in asked]
        return
    if isinstance(source, Source) and not source.blockers:
        _fork_each(session, asked, source, answers)
        return
    close_all(descriptors)
    if isinstance(source, Source):
        source.release()
    blockers = source.blockers if isinstance(source, Source) else source
    answers += [refuse_copy(one.identity, blockers) for one in asked]


def _fork_each(session: Session, asked: list[Asked], source: Source, answers: list[bytes]) -> None:
    copies = _prepare(asked, answers)
    flush_standard_streams(source.folders.log)
    hold = os.pipe() if source.must_wait else ()
    for place, copy in enumerate(copies):
        try:
            pid = fork_orphan(copy.group)
        except OSError as error:
            answers.append(error_line(copy.request.get("id"), kind_of(error), error))
        else:
            if pid == 0:
                later = [descriptor for other in copies[place + 1 :] for descriptor in other.descriptors]
                answers[:] = [become_copy(session, copy, source, [*hold, *later])]
                return
            answers.append(copy.answer % pid)
        close_all(copy.descriptors)
    source.release()
    if hold:
        os.close(hold[1])
        os.read(hold[0], 1)  # ends with the last copy at the latest
        os.close(hold[0])


def _prepare(asked: list[Asked], answers: list[bytes]) -> list[Copy]:
    copies = []
    for one in asked:
        try:
            copies.append(Copy(one.request, one.descriptors))
        except OSError as error:  # its memory group may not be entered
            close_all(one.descriptors)
            answers.append(error_line(one.identity, kind_of(error), error))
    return copies


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
