from __future__ import annotations

import pytest

from sandpool.escape import escape_untrusted


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        ("plain text\n\tindented é 漢", "plain text\n\tindented é 漢"),
        ("\x1b[2J\x07\r", "\\x1b[2J\\x07\\x0d"),
        ("\x9b31m", "\\x9b31m"),
        ("user\u202etxt.exe", "user\\u202etxt.exe"),
        ("\u2028\ud800\U000e0001", "\\u2028\\ud800\\U000e0001"),
    ],
)
def test_what_could_steer_a_terminal_is_written_as_an_escape(received: str, expected: str) -> None:
    assert escape_untrusted(received) == expected


def test_of_a_long_text_the_end_is_kept() -> None:
    assert escape_untrusted("a" * 90 + "the cause", limit_chars=9) == "[90 characters left out] the cause"
