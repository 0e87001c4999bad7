"""Request lines as dicts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class BadLineError(ValueError):
    """A request line that is not one JSON object."""


_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def parse_line(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode()
        try:
            request, end = _scan(text, 0)
        except StopIteration:
            request, end = None, 0
        if text[end:] != "\n":
            request = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadLineError(f"received {line[:80]!r}, which is not JSON ({error}); expected one JSON object a line") from None
    if type(request) is not dict:
        raise BadLineError(f"received {line[:80]!r}; expected one JSON object a line")
    return request


def name_of(request: dict[str, Any]) -> str:
    name = request.get("name")
    if type(name) is not str:
        raise ValueError(f"name is {name!r:.80}; expected the name of an attribute")
    return name
