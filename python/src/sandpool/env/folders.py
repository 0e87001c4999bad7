"""A row's three private folders, as its process sees them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

ISOLATED = ("/workspace", "/tmp", "/dev/shm")
DELETED = " (deleted)"


class Folders:
    """Where a process that a helper forked keeps its files, and the log that its standard streams lead to."""

    def __init__(self, request: dict[str, Any], stderr: int) -> None:
        self.isolated = bool(request.get("isolated"))
        self.branching = bool(request.get("branching"))
        self.given = request.get("workspace") or "/workspace"
        self.base = self.given if self.isolated else os.path.realpath(self.given)  # as the kernel names what lies in it
        status = os.fstat(stderr)
        self.log = (status.st_dev, status.st_ino)

    @property
    def tops(self) -> tuple[str, ...]:
        return ISOLATED if self.isolated else (self.base,)

    def holds(self, path: str) -> bool:
        return any(path == top or path.startswith(top + "/") for top in self.tops)

    def place_for(self, path: str) -> str:
        """The folder for an unnamed copy of a file that had this path: the same one, else the row's folder for temporary files."""
        folder = os.path.dirname(path)
        if self.holds(folder) and os.path.isdir(folder):
            return folder
        return "/tmp" if self.isolated else home_in(self.base, "tmp")

    def moved(self, text: str, copy: Folders) -> str:
        """A path of this process as its copy has it: mounted at the same place, or in another folder where nothing is mounted."""
        if not self.isolated:
            for old, new in ((self.base, copy.base), (self.given, copy.given)):
                if text == old or text.startswith(old + "/"):
                    return new + text[len(old) :]
        return text


def home_in(workspace: str, folder: str = "workspace") -> str:
    """A row's folder: inside what the agent made for it where nothing is mounted over /workspace, else that itself."""
    inside = os.path.join(workspace, folder)
    return inside if os.path.isdir(inside) else workspace


def without_mark(path: str) -> str:
    """The path that the kernel shows for a file that has no name any more, without its mark of that."""
    return path[: -len(DELETED)] if path.endswith(DELETED) else path
