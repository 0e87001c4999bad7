"""Make a pool on the server: upload the environment if it is missing, then follow the creation."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from sandpool.archive.pack import Archive, pack_environment
from sandpool.errors import ConnectionLostError, error_from_reply
from sandpool.pool.options import plain_options
from sandpool.pool.progress import ProgressDisplay
from sandpool.transport.server import Server
from sandpool.values.encode import encode_json

# The server says something at least every 5 s while it makes a pool.
_SILENCE_S = 60.0
_TAGGED = ("config",)
_CLIENT_SIDE = ("errors", "progress", "url", "api_key")


def create_pool(server: Server, environment: Path, n: int, options: dict[str, Any]) -> dict[str, Any]:
    """Make a pool and return its description; `options` are RLPool's, already checked."""
    wire_options = plain_options({name: value for name, value in options.items() if name not in _CLIENT_SIDE})
    with ProgressDisplay(options["progress"]) as display, pack_environment(environment) as archive:
        # Encoded before the upload, so that what cannot be sent is refused before anything is.
        request = _encode_request(archive, n, wire_options)
        if not server.has_archive(archive.sha256):
            reader = _ProgressReader(archive.data, archive.size_bytes, display)
            server.put_archive(archive.sha256, reader, archive.size_bytes)  # type: ignore[arg-type]
        return _follow(server, request, display)


def _encode_request(archive: Archive, n: int, options: dict[str, Any]) -> bytes:
    config = options["config"]
    members = {"archive": archive.sha256, "entry": archive.entry, "n": int(n)}
    members |= {name: value for name, value in options.items() if name not in _TAGGED}
    plain = encode_json(members, "options")
    per_row = list(config) if isinstance(config, tuple) else config
    return b'%b,"config":%b}' % (plain[:-1], encode_json(per_row, "config"))


def _follow(server: Server, request: bytes, display: ProgressDisplay) -> dict[str, Any]:
    for line in server.stream_lines(("pools",), request, _SILENCE_S):
        event = line.get("event")
        if event == "pool":
            description: dict[str, Any] = line["pool"]
            return description
        if event == "error":
            raise error_from_reply(int(line.get("status") or 500), line)
        if event == "progress":
            display.update(line.get("phase"), line.get("done"), line.get("total"))
        elif event is None and "id" in line:
            return line
    raise ConnectionLostError(
        "The server ended the creation's reply without a pool or an error.", hint="Its log says why; what it had made is rolled back."
    )


class _ProgressReader:
    """A file that shows how much of it was read."""

    def __init__(self, data: IO[bytes], size_bytes: int, display: ProgressDisplay) -> None:
        self._data = data
        self._size_bytes = size_bytes
        self._display = display
        self._read_bytes = 0

    def read(self, size: int = -1) -> bytes:
        piece = self._data.read(size)
        self._read_bytes += len(piece)
        self._display.update("upload", self._read_bytes, self._size_bytes)
        return piece
