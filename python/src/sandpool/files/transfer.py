"""One file, up or down: in pieces, through flat memory, with its SHA-256 compared at both ends."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import IO

import urllib3

from sandpool.errors import ConnectionLostError, LimitError, ReplyError
from sandpool.files.content import Content
from sandpool.files.entries import Transferred
from sandpool.transport.calls import Calls, decode

_HASH_HEADER = "X-Sandpool-Sha256"
# The machine syncs what it got before it answers.
_SILENCE_S = 600.0


def upload_file(calls: Calls, path: tuple[str, ...], query: Mapping[str, str], content: Content, sha256: str | None) -> Transferred:
    """Send content; returns once it is safely there. With `sha256` the other end refuses what has another hash."""
    headers = {"Content-Type": "application/octet-stream", "Accept": "application/json"}
    if content.size_bytes is not None:
        headers["Content-Length"] = str(content.size_bytes)
    if sha256 is not None:
        headers[_HASH_HEADER] = sha256
    body = content.pieces() if content.size_bytes != 0 else b""
    with calls.open("PUT", path, query=query, headers=headers, body=body, timeout_s=_SILENCE_S) as reply:
        written = decode(b"".join(calls.server.pieces(reply)), reply.status)
    sent = (content.sent_bytes, content.sha256.hexdigest())
    got = (written.get("bytes"), written.get("sha256")) if isinstance(written, dict) else written
    if got != sent:
        raise ReplyError(f"What was uploaded is not what is there: {sent} was sent, {got!r:.160} arrived (bytes, SHA-256).")
    return Transferred(sent[0], sent[1], 1)


def download_file(calls: Calls, path: tuple[str, ...], query: Mapping[str, str], target: IO[bytes], limit_bytes: int | None) -> Transferred:
    """Receive a file into `target`; raises where it is cut short, damaged, or longer than `limit_bytes`."""
    with calls.open("GET", path, query=query, timeout_s=_SILENCE_S) as reply:
        hashing = hashlib.sha256()
        received_bytes = 0
        for piece in _limited(calls.server.pieces(reply), limit_bytes):
            target.write(piece)
            hashing.update(piece)
            received_bytes += len(piece)
        _compare(reply, received_bytes, hashing.hexdigest())
    return Transferred(received_bytes, hashing.hexdigest(), 1)


def _limited(pieces: Iterator[bytes], limit_bytes: int | None) -> Iterator[bytes]:
    received_bytes = 0
    for piece in pieces:
        received_bytes += len(piece)
        if limit_bytes is not None and received_bytes > limit_bytes:
            raise LimitError(
                f"The file is longer than limit_bytes={limit_bytes}.",
                code="file_invalid",
                hint="Download it to a file, or raise the limit.",
            )
        yield piece


def _compare(reply: urllib3.BaseHTTPResponse, received_bytes: int, sha256: str) -> None:
    announced = reply.headers.get("Content-Length")
    if announced is not None and announced.isdigit() and int(announced) != received_bytes:
        raise ConnectionLostError(f"The download broke off after {received_bytes} of {announced} bytes.")
    expected = reply.headers.get(_HASH_HEADER)
    if expected is not None and expected.lower() != sha256:
        raise ReplyError(f"The download is damaged: its SHA-256 is {sha256}, the machine's file has {expected:.64}.")
