"""Folders, up and down, as a tar on the way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, cast

from sandpool.errors import InvalidValueError, ReplyError
from sandpool.files.entries import Transferred
from sandpool.files.local import make_whole
from sandpool.files.pack import FolderTar
from sandpool.files.pieces import PieceReader
from sandpool.files.unpack import Unpacker
from sandpool.machines.description import MachineRef, path_of
from sandpool.transport.calls import Calls, decode

_SILENCE_S = 600.0
_TAR = "application/x-tar"


def upload_folder(calls: Calls, machine: MachineRef, folder: Path, remote: str, user: str | None) -> Transferred:
    """Send the content of a local folder into a folder inside, which is made where it is missing."""
    tar = FolderTar(folder)
    headers = {"Content-Type": _TAR, "Accept": "application/json"}
    path = path_of(machine, "files", "tree")
    with calls.open("PUT", path, query=_query(remote, user), headers=headers, body=tar.pieces(), timeout_s=_SILENCE_S) as reply:
        written = decode(b"".join(calls.server.pieces(reply)), reply.status)
    got = (written.get("entries"), written.get("bytes")) if isinstance(written, dict) else written
    if got != (tar.entries, tar.content_bytes):
        raise ReplyError(f"{tar.entries} entries with {tar.content_bytes} bytes were uploaded, {got!r:.100} arrived.")
    return Transferred(tar.content_bytes, None, tar.entries)


def download_folder(calls: Calls, machine: MachineRef, remote: str, target: Path, user: str | None, limit_bytes: int | None) -> Transferred:
    """Receive the content of a folder inside into a local one."""
    if target.is_dir():
        return _receive(calls, machine, _query(remote, user), target, limit_bytes)
    if target.exists() or target.is_symlink():
        raise InvalidValueError(f"The local path {str(target)!r:.200} is no folder, and {remote!r:.200} inside is one.")
    with make_whole(target) as beside:
        return _receive(calls, machine, _query(remote, user), beside, limit_bytes)


def _receive(calls: Calls, machine: MachineRef, query: Mapping[str, str], folder: Path, limit_bytes: int | None) -> Transferred:
    unpacker = Unpacker(folder, limit_bytes)
    with calls.open("GET", path_of(machine, "files", "tree"), query=query, headers={"Accept": _TAR}, timeout_s=_SILENCE_S) as reply:
        reader = PieceReader(calls.server.pieces(reply))
        unpacker.unpack(cast("IO[bytes]", reader))
        reader.drain()
    return Transferred(unpacker.content_bytes, None, unpacker.entries)


def _query(path: str, user: str | None) -> dict[str, str]:
    return {"path": path} | ({} if user is None else {"user": user})
