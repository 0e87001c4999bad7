"""The head of an HTTP/1.1 reply."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sandpool.errors import ReplyError


@dataclass(frozen=True)
class ReplyHead:
    """What the client needs of a reply's status line and headers."""

    status: int
    content_type: str
    length_bytes: int | None
    chunked: bool
    closes: bool


@lru_cache(maxsize=64)  # A pool's replies have the same head for as long as they have the same length.
def parse_reply_head(head: bytes) -> ReplyHead:
    """Parse the bytes before the empty line; raises ReplyError for what is not HTTP/1."""
    status_line, _, rest = head.partition(b"\r\n")
    if not status_line.startswith(b"HTTP/1.") or not status_line[9:12].isdigit():
        raise ReplyError(
            f"The reply begins with {status_line[:60]!r}; expected an HTTP/1.1 status line.",
            hint="Is the URL that of a Sandpool server?",
        )
    headers: dict[bytes, bytes] = {}
    for line in rest.split(b"\r\n"):
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip()
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise ReplyError(
            f"The reply is encoded as {headers[b'content-encoding']!r}, which was not asked for.",
            hint="A proxy between must not compress.",
        )
    chunked = headers.get(b"transfer-encoding", b"").lower() == b"chunked"
    connection = headers.get(b"connection", b"").lower()
    return ReplyHead(
        status=int(status_line[9:12]),
        content_type=headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower(),
        length_bytes=None if chunked else _length_of(headers.get(b"content-length")),
        chunked=chunked,
        closes=connection == b"close" or (status_line.startswith(b"HTTP/1.0") and connection != b"keep-alive"),
    )


def _length_of(value: bytes | None) -> int | None:
    if value is None:
        return None
    if not value.isdigit():
        raise ReplyError(f"The reply's content-length is {value[:40]!r}; expected a number.")
    return int(value)
