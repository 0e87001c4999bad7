"""The files of one machine."""

from __future__ import annotations

from typing import TypeAlias

from sandpool.files.content import Source
from sandpool.files.entries import FileEntry, Transferred
from sandpool.files.files import Files, Target
from sandpool.files.watch import FileWatch

Entries: TypeAlias = "list[FileEntry]"


class SandboxFiles:
    """Files of one machine: the calls of `Files` without its name."""

    def __init__(self, files: Files, machine_id: str) -> None:
        self._files = files
        self._id = machine_id

    def upload(self, source: Source, remote: str, *, mode: int | None = None, user: str | None = None) -> Transferred:
        """Upload a local file or folder, bytes, or a file of bytes; see `Files.upload`."""
        return self._files.upload(self._id, source, remote, mode=mode, user=user)

    def download(self, remote: str, target: Target, *, user: str | None = None, limit_bytes: int | None = None) -> Transferred:
        """Download a file or a folder; see `Files.download`."""
        return self._files.download(self._id, remote, target, user=user, limit_bytes=limit_bytes)

    def read(self, remote: str, *, user: str | None = None) -> bytes:
        """Return a file's content; see `Files.read`."""
        return self._files.read(self._id, remote, user=user)

    def read_text(self, remote: str, *, user: str | None = None) -> str:
        """Return a file's content as text; raises UnicodeDecodeError where it is no UTF-8."""
        return self._files.read_text(self._id, remote, user=user)

    def write(self, remote: str, content: bytes | str, *, mode: int | None = None, user: str | None = None) -> Transferred:
        """Write a file; see `Files.write`."""
        return self._files.write(self._id, remote, content, mode=mode, user=user)

    def list(self, path: str, *, depth: int = 1, user: str | None = None) -> Entries:
        """Return what is in a folder; see `Files.list`."""
        return self._files.list(self._id, path, depth=depth, user=user)

    def stat(self, path: str, *, follow: bool = True, user: str | None = None) -> FileEntry:
        """Return what is at a path; see `Files.stat`."""
        return self._files.stat(self._id, path, follow=follow, user=user)

    def make(self, path: str, *, parents: bool = True, mode: int | None = None, user: str | None = None) -> None:
        """Make a folder; see `Files.make`."""
        self._files.make(self._id, path, parents=parents, mode=mode, user=user)

    def move(self, source: str, target: str, *, replace: bool = False, user: str | None = None) -> None:
        """Give a file or folder another path; see `Files.move`."""
        self._files.move(self._id, source, target, replace=replace, user=user)

    def remove(self, path: str, *, recursive: bool = False, user: str | None = None) -> None:
        """Remove a file or folder; see `Files.remove`."""
        self._files.remove(self._id, path, recursive=recursive, user=user)

    def watch(self, path: str, *, recursive: bool = False, user: str | None = None) -> FileWatch:
        """Iterate over what happens below a path; see `Files.watch`."""
        return self._files.watch(self._id, path, recursive=recursive, user=user)
