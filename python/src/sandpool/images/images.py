"""Images: what machines start from, read-only and shared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any

from sandpool.errors import ConnectionLostError, InvalidValueError, ReplyError
from sandpool.pool.progress import ProgressDisplay
from sandpool.transport.calls import Calls, encode, event_error
from sandpool.transport.described import Described

_SILENCE_S = 120.0
_REMOVE_S = 300.0
_PIECE_BYTES = 1 << 18
_LABELS = {
    "upload": "Uploading the image",
    "resolve": "Looking the image up",
    "download": "Downloading",
    "unpack": "Unpacking",
    "install": "Installing packages",
    "store": "Storing",
}


@dataclass(frozen=True, kw_only=True)
class Image(Described):
    """An image, or a recipe for one.

    Attributes:
        id: ``"host"``, ``"sha256:…"``, or None for a recipe that was not built yet.
        name: what machines name it by.
        kind: ``"host"``, ``"recipe"``, ``"pulled"`` or ``"imported"``.
        source: where it came from, with its digest, or None.
        bytes: its size on the server's disk, or None.
        created_at: ISO 8601, UTC, or None.
        description: one line.
    """

    name: str
    kind: str
    id: str | None = None
    source: str | None = None
    bytes: int | None = None
    created_at: str | None = None
    description: str = ""


class Images:
    """Calls about images."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self) -> Any:
        """Return all images, and the recipes that could be built: a list of `Image`."""
        reply = self._calls.json("GET", ("images",))
        if not isinstance(reply, dict) or not isinstance(reply.get("images"), tuple | list):
            raise ReplyError(f"The server answered with {reply!r:.100}; expected a list of images.")
        return [Image.of_wire(item) for item in reply["images"]]

    def build(self, recipe: str, *, progress: str | bool = "auto") -> Image:
        """Build a recipe such as ``"python"``; one that is built already is kept."""
        return self._make({"build": recipe}, progress)

    def pull(self, reference: str, *, progress: str | bool = "auto") -> Image:
        """Pull an image from a registry, such as ``"docker.io/library/debian@sha256:…"``; a tag is resolved to a digest first."""
        return self._make({"pull": reference}, progress)

    def import_tar(self, name: str, path: str | PathLike[str], *, progress: str | bool = "auto") -> Image:
        """Import a tar: an OCI layout, a ``docker save``, or a plain root file system."""
        source = Path(path)
        if not source.is_file():
            raise InvalidValueError(f"path={str(path)!r:.200} was given; expected a tar that exists.")
        with source.open("rb") as file, ProgressDisplay(progress, _LABELS) as display:
            size_bytes = source.stat().st_size
            headers = {"Content-Type": "application/x-tar", "Content-Length": str(size_bytes)}
            return self._follow("PUT", {"name": name}, headers, _shown(file, size_bytes, display), display)

    def remove(self, image: str) -> None:
        """Remove an image, given by name or id, from the server's host.

        Raises:
            ImageInUseError: machines still use it.
        """
        self._calls.json("DELETE", ("images", image), timeout_s=_REMOVE_S)

    def _make(self, body: Mapping[str, str], progress: str | bool) -> Image:
        with ProgressDisplay(progress, _LABELS) as display:
            return self._follow("POST", {}, {"Content-Type": "application/json"}, encode(body), display)

    def _follow(self, method: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any, display: ProgressDisplay) -> Image:
        for line in self._calls.lines(method, ("images",), query=query, headers=headers, body=body, silence_s=_SILENCE_S):
            event = line.get("event")
            if event == "error":
                raise event_error(line)
            if event == "image":
                return Image.of_wire(line.get("image"))
            display.update(line.get("phase"), line.get("done"), line.get("total"))
        raise ConnectionLostError("The server ended its reply without an image or an error.", hint="Its log says why.")


def _shown(file: IO[bytes], size_bytes: int, display: ProgressDisplay) -> Iterator[bytes]:
    sent_bytes = 0
    while piece := file.read(_PIECE_BYTES):
        yield piece
        sent_bytes += len(piece)
        display.update("upload", sent_bytes, size_bytes)
