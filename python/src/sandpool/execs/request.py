"""The request of an exec, checked as far as it needs no server."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import IO, Any, TypeAlias

from sandpool.errors import InvalidTypeError, InvalidValueError
from sandpool.machines.description import checked_mapping
from sandpool.pool.options import check_seconds

Command: TypeAlias = "str | Sequence[str]"
Stdin: TypeAlias = "bytes | str | IO[bytes] | None"

# More goes through the WebSocket.
STDIN_LIMIT_BYTES = 16 << 20


def exec_request(
    command: Command,
    *,
    cwd: str | None = None,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
    timeout: float | None = None,
    tty: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Return the members of an exec's request; what is not given is left out."""
    if timeout is not None:
        check_seconds("timeout", timeout)
    given: dict[str, Any] = {"cwd": cwd, "user": user, "timeout": timeout, "tty": None if tty is None else dict(tty)}
    given["environment"] = checked_mapping("environment", environment) or None
    return _program(command) | {name: value for name, value in given.items() if value is not None}


def stdin_member(stdin: bytes | str) -> Any:
    """Return standard input as it travels in a request: text, or bytes in base64."""
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def small_stdin(stdin: Stdin) -> bytes | None:
    """Return standard input that fits into a request; None where it is a file or too long for one, and is to be streamed."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    if isinstance(stdin, (bytes, bytearray, memoryview)):
        return bytes(stdin) if len(stdin) <= STDIN_LIMIT_BYTES else None
    return None


def stdin_file(stdin: Stdin) -> IO[bytes]:
    """Return standard input as a file of bytes."""
    if isinstance(stdin, str):
        return io.BytesIO(stdin.encode())
    if isinstance(stdin, (bytes, bytearray, memoryview)):
        return io.BytesIO(stdin)
    if stdin is None or not hasattr(stdin, "read"):
        raise InvalidTypeError(f"stdin is of type {type(stdin).__name__}; expected bytes, text, a file of bytes, or None.")
    return stdin


def _program(command: object) -> dict[str, Any]:
    if isinstance(command, str):
        if not command:
            raise InvalidValueError("The command is empty; expected a line for the machine's shell, or a list of arguments.")
        return {"command": command}
    if not isinstance(command, Sequence) or isinstance(command, (bytes, bytearray)):
        raise InvalidTypeError(f"The command is of type {type(command).__name__}; expected text for the shell, or a list of text.")
    argv: list[object] = list(command)
    wrong = next((item for item in argv if not isinstance(item, str)), None)
    if wrong is not None:
        raise InvalidTypeError(
            f"The argument {wrong!r:.80} of the command is of type {type(wrong).__name__}; expected text.", hint="Write str(…) around it."
        )
    if not argv:
        raise InvalidValueError("The command is an empty list; expected the program and its arguments.")
    return {"argv": argv}
