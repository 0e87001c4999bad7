"""What one row returned, as a part of a reply for several: nothing in it may cost the other rows anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sandpool.env.encoding import check_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sandpool.env.encoding import Output

BYTES_MAX = 16 << 20  # a row's share of a line
DEPTH_MAX = 62  # of the 64 levels of a line, less those of the reply and of the column

_BESIDE_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^]["{}]+')
_INNERMOST = re.compile(r"\{\}|\[\]")


class MisfitError(ValueError):
    """What is no reply by the protocol: an observation that is not of its announced space, a value too deep or too large."""

    sandpool_kind = "protocol"


def row_text(write: Callable[[Any, Output], str], value: Any, output: Output) -> str:
    """The value as `write` writes it. A value that is refused leaves none of its arrays in the output."""
    pieces, size = len(output.chunks), output.size
    try:
        text = write(value, output)
        _check_size((len(text) if text.isascii() else len(check_text(text).encode())) + output.size - size)
        if text.count("{") + text.count("[") > DEPTH_MAX:
            _check_depth(text)
        return text
    except BaseException:
        del output.chunks[pieces:]
        output.size = size
        raise


def _check_size(size: int) -> None:
    if size > BYTES_MAX:
        raise MisfitError(f"{size} bytes are more than a row's share of {BYTES_MAX}")


def _check_depth(text: str) -> None:
    brackets = _BESIDE_BRACKETS.sub("", text)
    for _ in range(DEPTH_MAX):
        brackets = _INNERMOST.sub("", brackets)
        if not brackets:
            return
    raise MisfitError(f"a value nested deeper than {DEPTH_MAX}, with its tags")
