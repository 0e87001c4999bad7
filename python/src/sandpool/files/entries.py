"""What the server tells of files inside machines."""

from __future__ import annotations

from dataclasses import dataclass

from sandpool.transport.described import Described


@dataclass(frozen=True, kw_only=True)
class FileEntry(Described):
    """Something at a path inside a machine.

    Attributes:
        name: its last part.
        path: absolute. What of it is no UTF-8 became U+FFFD; `path_base64` then has the very bytes.
        kind: ``"file"``, ``"folder"``, ``"link"`` or ``"other"``.
        size: bytes.
        mode: permission bits, such as ``0o644``.
        uid: owner inside.
        gid: group inside.
        mtime_ms: when it was changed, milliseconds since 1970.
        target: where a link leads, or None.
    """

    name: str
    path: str
    kind: str
    size: int = 0
    mode: int = 0
    uid: int = 0
    gid: int = 0
    mtime_ms: float = 0.0
    target: str | None = None
    path_base64: str | None = None


@dataclass(frozen=True, kw_only=True)
class FileChange(Described):
    """Something that happened below a watched path.

    Attributes:
        kind: ``"created"``, ``"modified"``, ``"removed"``, ``"moved"``, or ``"rescan"`` where some were missed: look at all of it.
        path: what it happened to; None for ``"rescan"``.
        to: where it moved, else None.
    """

    kind: str
    path: str | None = None
    to: str | None = None


@dataclass(frozen=True)
class Transferred:
    """What was sent or received: bytes of content, the SHA-256 that both ends agree on (None for folders), and how many entries."""

    bytes: int
    sha256: str | None
    entries: int
