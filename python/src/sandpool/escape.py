"""Text that came from a sandbox, made safe for terminals, logs and error messages."""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\n\t")
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def escape_untrusted(text: str, *, limit_chars: int = 16_384) -> str:
    r"""Return `text` with every character that could steer a terminal written as an escape.

    Newlines and tabs stay; control characters (the terminal's escape, carriage return), bidirectional overrides, unassigned and
    surrogate code points become ``\x1b`` or ``\u202e``. Of a text over `limit_chars` the end is kept, where tracebacks
    say what happened.

    >>> escape_untrusted("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if len(text) > limit_chars:
        text = f"[{len(text) - limit_chars} characters left out] {text[-limit_chars:]}"
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _ESCAPED_CATEGORIES:
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
