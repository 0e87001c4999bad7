from __future__ import annotations

import re
from pathlib import Path

import pytest

import sandpool
from sandpool.errors import error_from_reply


@pytest.mark.parametrize(
    ("status", "code", "family"),
    [
        (401, "unauthorized", sandpool.AuthenticationError),
        (403, "host_not_allowed", sandpool.AuthenticationError),
        (404, "pool_not_found", sandpool.NotFoundError),
        (409, "pool_busy", sandpool.PoolBusyError),
        (409, "pool_sequence", sandpool.PoolSequenceError),
        (409, "name_taken", sandpool.RequestRefusedError),
        (410, "pool_lost", sandpool.PoolLostError),
        (410, "pool_closed", sandpool.PoolLostError),
        (413, "body_too_large", sandpool.RequestRefusedError),
        (422, "environment_failed", sandpool.EnvironmentFailedError),
        (429, "quota", sandpool.LimitError),
        (507, "memory_short", sandpool.LimitError),
        (500, "internal", sandpool.ServerFailedError),
        (503, "a_code_of_the_future", sandpool.ServerFailedError),
        (400, "a_code_of_the_future", sandpool.RequestRefusedError),
    ],
)
def test_a_code_of_the_server_becomes_its_family(status: int, code: str, family: type) -> None:
    error = error_from_reply(status, {"error": {"code": code, "message": "what", "hint": "do", "details": {"a": 1}}})
    assert type(error) is family
    assert (error.code, error.hint, error.details) == (code, "do", {"a": 1, "status": status})
    assert str(error) == "what\n  do"


def test_every_code_of_the_client_stands_in_the_documentation() -> None:
    repository = Path(__file__).parents[2]
    documented = set(re.findall(r"^\| `(\w+)`", (repository / "docs/errors.md").read_text(), re.MULTILINE))
    sources = [path.read_text() for path in (repository / "python/src").rglob("*.py")]
    made = {code for source in sources for code in re.findall(r"\b(?:default_)?code ?= ?\"(\w+)\"", source)}
    assert len(made) > 10
    assert made <= documented


def test_a_failed_environment_names_its_row_kind_and_stderr() -> None:
    details = {"row": 17, "kind": "crash", "stderr_tail": "boom\x1b[2J"}
    error = error_from_reply(422, {"error": {"code": "environment_failed", "message": "boom\x1b[2J", "hint": None, "details": details}})
    assert (error.row, error.kind, error.stderr_tail) == (17, "crash", "boom\x1b[2J")
    assert str(error) == "boom\\x1b[2J\n    boom\\x1b[2J"
    details["traceback"] = "Traceback:\n  line 7\n"
    error = error_from_reply(422, {"error": {"code": "environment_failed", "message": "boom", "hint": "do", "details": details}})
    assert str(error) == "boom\n    Traceback:\n      line 7\n  do"


@pytest.mark.parametrize("payload", ["<html>", None, {"error": "no"}, {"error": {"message": "x"}}, []])
def test_a_reply_without_a_description_is_an_error_of_its_status(payload: object) -> None:
    error = error_from_reply(502, payload)
    assert isinstance(error, sandpool.ServerFailedError)
    assert error.code == "protocol_violation"
    assert "status 502" in str(error)


@pytest.mark.parametrize("name", [name for name in sandpool.__all__ if name.endswith("Error")])
def test_every_error_has_one_root(name: str) -> None:
    assert issubclass(getattr(sandpool, name), sandpool.SandpoolError)


def test_argument_errors_are_pythons_own_too() -> None:
    assert issubclass(sandpool.InvalidValueError, ValueError)
    assert issubclass(sandpool.InvalidTypeError, TypeError)
