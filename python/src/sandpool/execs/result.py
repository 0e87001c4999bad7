"""How a program ended, and what it wrote."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sandpool.errors import ReplyError
from sandpool.execs.output import Keeper, bytes_of, text_of
from sandpool.machines.errors import ExecFailedError
from sandpool.transport.described import Described


@dataclass(frozen=True, kw_only=True)
class LeftProgram(Described):
    """A program that an exec left running: its number inside the machine and its command line, unescaped."""

    pid: int
    command: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class ExecResult:
    """How a program ended. A program that failed is a result, not an exception; `check` makes one of it.

    Attributes:
        id: of the exec.
        exit_code: the program's, or 128 and the signal's number; None where it is not known.
        signal: what ended it, without ``SIG``, or None.
        timed_out: it ran into its timeout, and its whole tree was ended; the output so far is here.
        oom_killed: it used up the machine's memory.
        truncated: more was written than is kept; head and tail are here.
        duration_ms: from start to end.
        stdout_bytes: what was kept of its standard output, exactly as it was written. `stdout` is the text.
        stderr_bytes: the same of its standard error; empty with a terminal.
        stdout_total_bytes: how much it wrote.
        stderr_total_bytes: likewise.
        stdout_dropped_bytes: how much of it was dropped between head and tail.
        stderr_dropped_bytes: likewise.
        left: programs that it left running.
        state: ``"exited"``, ``"detached"`` where it left some, or ``"lost"``.

    What a program writes is not to be trusted: `sandpool.escape.escape_untrusted` makes it safe for a terminal.
    """

    id: str
    exit_code: int | None
    signal: str | None = None
    timed_out: bool = False
    oom_killed: bool = False
    truncated: bool = False
    duration_ms: float = 0.0
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    stdout_total_bytes: int = 0
    stderr_total_bytes: int = 0
    stdout_dropped_bytes: int = 0
    stderr_dropped_bytes: int = 0
    left: list[LeftProgram] = field(default_factory=list)
    state: str = "exited"
    stdout_head_bytes: int = 0
    stderr_head_bytes: int = 0
    wire: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def stdout(self) -> str:
        """The standard output as text; what is no UTF-8 became U+FFFD, and where its middle was dropped a line says so."""
        return text_of(self.stdout_bytes, self.stdout_head_bytes, self.stdout_dropped_bytes)

    @property
    def stderr(self) -> str:
        """The standard error as text, likewise."""
        return text_of(self.stderr_bytes, self.stderr_head_bytes, self.stderr_dropped_bytes)

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with exit code 0."""
        return self.exit_code == 0 and not self.timed_out and not self.oom_killed

    def check(self) -> ExecResult:
        """Return this result if the program succeeded.

        Raises:
            ExecFailedError: it did not; the message has the end of what it wrote, `result` all of it.
        """
        if not self.ok:
            raise ExecFailedError.of_result(self)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return everything the server said of the end, with `stdout` and `stderr` as text."""
        return {**copy.deepcopy(dict(self.wire)), "stdout": self.stdout, "stderr": self.stderr}

    def __repr__(self) -> str:
        how = [f"exit_code={self.exit_code}"] + ([] if self.signal is None else [f"signal={self.signal!r}"])
        how += [name for name in ("timed_out", "oom_killed", "truncated") if getattr(self, name)]
        said = f"{self.stdout_total_bytes} bytes of stdout, {self.stderr_total_bytes} of stderr"
        return f"<ExecResult {self.id} {self.state}: {', '.join(how)}, {said}, {self.duration_ms:.0f} ms>"


def read_result(outcome: object) -> ExecResult:
    """Read an outcome that has the output in it, or none at all."""
    members = _members_of(outcome)
    output = {name: bytes_of(members.get(name) or "") for name in ("stdout", "stderr")}
    counts = {name: (int(members.get(f"{name}_head") or 0), int(members.get(f"{name}_dropped") or 0)) for name in output}
    totals = {name: int(members.get(f"{name}_bytes") or 0) for name in output}
    return _make(members, output, counts, totals)


def read_streamed(outcome: object, stdout: Keeper, stderr: Keeper) -> ExecResult:
    """Read the outcome of a stream, whose output went by here; it is truncated if less was kept here than was written."""
    members = _members_of(outcome)
    kept = {"stdout": stdout.content(), "stderr": stderr.content()}
    counts = {name: (head, dropped) for name, (_, head, dropped) in kept.items()}
    seen = {"stdout": stdout.total_bytes, "stderr": stderr.total_bytes}
    totals = {name: max(int(members.get(f"{name}_bytes") or 0), seen[name]) for name in kept}
    truncated = any(dropped for _, dropped in counts.values()) or totals != seen
    return _make({**members, "truncated": truncated}, {name: content for name, (content, _, _) in kept.items()}, counts, totals)


def _make(
    members: Mapping[str, Any], output: Mapping[str, bytes], counts: Mapping[str, tuple[int, int]], totals: Mapping[str, int]
) -> ExecResult:
    return ExecResult(
        id=str(members["id"]),
        exit_code=members.get("exit_code"),
        signal=members.get("signal"),
        timed_out=bool(members.get("timed_out")),
        oom_killed=bool(members.get("oom_killed")),
        truncated=bool(members.get("truncated")),
        duration_ms=float(members.get("duration_ms") or 0),
        stdout_bytes=output["stdout"],
        stderr_bytes=output["stderr"],
        stdout_total_bytes=totals["stdout"],
        stderr_total_bytes=totals["stderr"],
        stdout_dropped_bytes=counts["stdout"][1],
        stderr_dropped_bytes=counts["stderr"][1],
        stdout_head_bytes=counts["stdout"][0],
        stderr_head_bytes=counts["stderr"][0],
        left=[LeftProgram.of_wire(program) for program in members.get("left") or []],
        state=str(members.get("state") or "exited"),
        wire=members,
    )


def _members_of(outcome: object) -> Mapping[str, Any]:
    if not isinstance(outcome, dict) or "id" not in outcome:
        raise ReplyError(f"The server described the end of a program as {outcome!r:.100}; expected its outcome.")
    return outcome
