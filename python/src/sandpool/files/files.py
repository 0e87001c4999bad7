"""Calls about files of machines."""

from __future__ import annotations

import hashlib
import io
import posixpath
from os import PathLike
from pathlib import Path
from typing import IO, Any, TypeAlias

from sandpool.errors import InvalidTypeError, InvalidValueError, ReplyError
from sandpool.files.content import Source, open_content
from sandpool.files.entries import FileEntry, Transferred
from sandpool.files.local import write_whole
from sandpool.files.transfer import download_file, upload_file
from sandpool.files.tree import download_folder, upload_folder
from sandpool.files.watch import FileWatch
from sandpool.machines.description import MachineRef, path_of
from sandpool.transport.calls import Calls

Entries: TypeAlias = "list[FileEntry]"
Target: TypeAlias = "str | PathLike[str] | IO[bytes]"

_READ_LIMIT_BYTES = 1 << 30
_REMOVE_S = 600.0


class Files:
    """Calls about files. Paths inside are absolute; whoever is `user` inside must be allowed to: a name, ``uid`` or ``uid:gid``."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def upload(
        self, machine: MachineRef, source: Source, remote: str, *, mode: int | None = None, user: str | None = None, parents: bool = True
    ) -> Transferred:
        """Upload a file or a folder; returns once the content is safely there under its name.

        A file appears whole or not at all. Files of any size go through flat memory. A folder's content goes into the folder `remote`.

        Args:
            machine: name, id, or `Machine`.
            source: local path of a file or folder, bytes, or a file of bytes.
            remote: path inside; ending with ``/`` it is the folder in which the file gets its local name.
            mode: permission bits such as ``0o755``; None: those of the local file, else those of what is there, else ``0o644``.
            user: whose file it is.
            parents: make missing folders.
        """
        if isinstance(source, (str, PathLike)) and Path(source).is_dir():
            return upload_folder(self._calls, machine, Path(source), _checked(remote), user)
        if remote.endswith("/"):
            remote += _name_of(source)
        with open_content(source) as content:
            bits = content.mode if mode is None else mode
            query = {"path": _checked(remote), **_given(user=user, parents=None if parents else "false")}
            query |= {} if bits is None else {"mode": f"{bits:04o}"}
            known = hashlib.sha256(source).hexdigest() if isinstance(source, bytes) else None
            return upload_file(self._calls, path_of(machine, "files"), query, content, known)

    def download(
        self, machine: MachineRef, remote: str, target: Target, *, user: str | None = None, limit_bytes: int | None = None
    ) -> Transferred:
        """Download a file or a folder to a local path, or a file into a file object.

        A file appears whole or not at all, through flat memory. A folder becomes the local folder `target`: new, it appears whole or
        not at all; one that exists already gets the files one by one. Nothing in a machine's answer writes elsewhere: links that
        lead out of the folder are left out, with a warning.

        Args:
            machine: name, id, or `Machine`.
            remote: path inside.
            target: local path; ending with ``/``, or a folder that exists, it is the folder in which a file gets its name.
            user: who reads it.
            limit_bytes: longest content; None: any.
        """
        if not isinstance(target, (str, PathLike)):
            if not hasattr(target, "write"):
                raise InvalidTypeError(f"target is of type {type(target).__name__}; expected a local path or a file of bytes.")
            return download_file(self._calls, path_of(machine, "files"), _query(remote, user=user), target, limit_bytes)
        if self.stat(machine, remote, user=user).kind == "folder":
            return download_folder(self._calls, machine, remote, Path(target), user, limit_bytes)
        local = Path(target)
        if str(target).endswith("/") or local.is_dir():
            local = local / _safe_name(remote)
        with write_whole(local) as file:
            return download_file(self._calls, path_of(machine, "files"), _query(remote, user=user), file, limit_bytes)

    def read(self, machine: MachineRef, remote: str, *, user: str | None = None, limit_bytes: int = _READ_LIMIT_BYTES) -> bytes:
        """Return a file's content, at most `limit_bytes`."""
        content = io.BytesIO()
        download_file(self._calls, path_of(machine, "files"), _query(remote, user=user), content, limit_bytes)
        return content.getvalue()

    def read_text(self, machine: MachineRef, remote: str, *, user: str | None = None) -> str:
        """Return a file's content as text; raises UnicodeDecodeError where it is no UTF-8."""
        return self.read(machine, remote, user=user).decode()

    def write(
        self, machine: MachineRef, remote: str, content: bytes | str, *, mode: int | None = None, user: str | None = None
    ) -> Transferred:
        """Write a file; what was there before is replaced in one moment."""
        data = content.encode() if isinstance(content, str) else bytes(content)
        return self.upload(machine, data, remote, mode=mode, user=user)

    def list(self, machine: MachineRef, path: str, *, depth: int = 1, user: str | None = None) -> Entries:
        """Return what is in a folder, sorted by path; with a greater `depth` also what is in the folders in it."""
        found: Entries = []
        after: str | None = None
        while True:
            query = _query(path, user=user, depth=str(depth), after=after)
            reply = self._calls.json("GET", path_of(machine, "files", "list"), query=query)
            if not isinstance(reply, dict) or not isinstance(reply.get("entries"), type(found)):
                raise ReplyError(f"The server answered with {reply!r:.100}; expected a list of files.")
            entries = [FileEntry.of_wire(entry) for entry in reply["entries"]]
            found += entries
            if not reply.get("more") or not entries:
                return found
            after = entries[-1].path

    def stat(self, machine: MachineRef, path: str, *, follow: bool = True, user: str | None = None) -> FileEntry:
        """Return what is at a path; with ``follow=False`` a link itself."""
        query = _query(path, user=user, follow="true" if follow else "false")
        reply = self._calls.json("GET", path_of(machine, "files", "stat"), query=query)
        return FileEntry.of_wire(reply.get("entry") if isinstance(reply, dict) else reply)

    def make(self, machine: MachineRef, path: str, *, parents: bool = True, mode: int | None = None, user: str | None = None) -> None:
        """Make a folder, and those above it; with ``parents=False`` it must not exist yet and the one above must."""
        body = {"path": _checked(path), "parents": parents, **_given(user=user, mode=mode)}
        self._calls.json("POST", path_of(machine, "files", "make"), body=body)

    def move(self, machine: MachineRef, source: str, target: str, *, replace: bool = False, user: str | None = None) -> None:
        """Give a file or folder another path; with `replace` what is there goes."""
        body = {"from": _checked(source), "to": _checked(target), "replace": replace, **_given(user=user)}
        self._calls.json("POST", path_of(machine, "files", "move"), body=body)

    def remove(self, machine: MachineRef, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        """Remove a file or an empty folder; with `recursive` a folder with all that is in it."""
        body = {"path": _checked(path), "recursive": recursive, **_given(user=user)}
        self._calls.json("POST", path_of(machine, "files", "remove"), body=body, timeout_s=_REMOVE_S)

    def watch(self, machine: MachineRef, path: str, *, recursive: bool = False, user: str | None = None) -> FileWatch:
        """Iterate over what happens below a path, until its ``with`` block is left; it has begun when this returns."""
        query = _query(path, user=user, recursive="true" if recursive else "false")
        return FileWatch(self._calls, path_of(machine, "files", "watch"), query)


def _query(path: str, **given: str | None) -> dict[str, str]:
    return {"path": _checked(path), **_given(**given)}


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _checked(path: object) -> str:
    if not isinstance(path, str):
        raise InvalidTypeError(f"A path inside was given as {type(path).__name__}; expected text.")
    if not path.startswith("/"):
        raise InvalidValueError(f"The path inside is {path!r:.200}; expected an absolute one.", hint="Such as /root/" + path[:100])
    return path


def _name_of(source: Source) -> str:
    name = Path(source).name if isinstance(source, (str, PathLike)) else ""
    if not name:
        raise InvalidValueError("The path inside is a folder and what is uploaded has no name; expected the path of the file.")
    return name


def _safe_name(remote: str) -> str:
    name = posixpath.basename(remote)
    if name in ("", ".", "..") or "\0" in name:
        raise InvalidValueError(f"The path inside, {remote!r:.200}, has no name for a local file; expected target= to be the file's path.")
    return name
