"""Run a piece of code inside a machine."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Mapping

from sandpool.errors import InvalidTypeError, InvalidValueError, SandpoolError
from sandpool.execs.fed import Fed
from sandpool.execs.foreground import Foreground
from sandpool.execs.result import ExecResult
from sandpool.machines.description import MachineRef
from sandpool.machines.machines import Machines

# From a file of its own tracebacks show lines, and child processes can import it; modules are found where the program runs.
_PYTHON = 'PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" exec python3 "$0"'
_LANGUAGES = ("python", "bash", "node")


class CodeRun:
    """Runs one piece of code from a file that is there for as long as it runs; `end` may come from another thread."""

    def __init__(self, machines: Machines, machine: MachineRef, code: str, file: str, user: str | None, program: Foreground | Fed) -> None:
        self._files, self._machine, self._code, self._file, self._user, self._program = machines.files, machine, code, file, user, program

    def run(self) -> ExecResult:
        """Return how it ended."""
        self._files.write(self._machine, self._file, self._code, user=self._user)
        try:
            return self._program.run()
        finally:
            with contextlib.suppress(SandpoolError):
                self._files.remove(self._machine, self._file.rpartition("/")[0], recursive=True, user=self._user)

    def end(self) -> None:
        """End it and all that it started."""
        self._program.end()


def prepare_code(
    machines: Machines,
    machine: MachineRef,
    code: str,
    language: str,
    *,
    cwd: str | None,
    environment: Mapping[str, str] | None,
    user: str | None,
    timeout: float | None,
) -> CodeRun | Foreground | Fed:
    """Return what runs code with the interpreter that the machine has."""
    if not isinstance(code, str):
        raise InvalidTypeError(f"The code is of type {type(code).__name__}; expected text.")
    if language not in _LANGUAGES:
        raise InvalidValueError(f"language={language!r:.40} was given; expected {' or '.join(map(repr, _LANGUAGES))}.")
    if language == "node":
        # From its standard input Node finds packages where it runs, from a file only beside the file.
        return machines.prepare(machine, ["node", "-"], stdin=code, cwd=cwd, environment=environment, user=user, timeout=timeout)
    name = "main.py" if language == "python" else "main.sh"
    file = f"/tmp/sandpool-run-{secrets.token_hex(8)}/{name}"  # noqa: S108 (inside the machine)
    argv = ["/bin/sh", "-c", _PYTHON, file] if language == "python" else ["bash", file]
    program = machines.prepare(machine, argv, cwd=cwd, environment=environment, user=user, timeout=timeout)
    return CodeRun(machines, machine, code, file, user, program)
