"""Calls that run programs inside machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sandpool.errors import InvalidValueError, ReplyError
from sandpool.execs.fed import Fed
from sandpool.execs.foreground import Foreground
from sandpool.execs.request import Command, Stdin, exec_request, small_stdin, stdin_file, stdin_member
from sandpool.execs.result import ExecResult, read_result
from sandpool.execs.sources import AttachedSocket, StreamedReply
from sandpool.execs.stream import ExecStream
from sandpool.machines.description import MachineRef, path_of
from sandpool.pool.options import check_seconds
from sandpool.transport.calls import Calls
from sandpool.transport.described import Described

_END_TIMEOUT_S = 60.0
_LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class ListedExec(Described):
    """A program that a machine knows: it runs, has ended within the last ten minutes, or left others running (``"detached"``)."""

    id: str
    state: str
    argv: list[str] = field(default_factory=list)
    pid: int | None = None
    started_at: str = ""
    exit_code: int | None = None
    signal: str | None = None


@dataclass(frozen=True, kw_only=True)
class StartedExec(Described):
    """A program in the background: its id, and its number inside the machine."""

    id: str
    pid: int | None = None


class Execs:
    """Calls that run programs. A machine is given as its name, its id, or a `Machine`."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def exec(
        self,
        machine: MachineRef,
        command: Command,
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: Stdin = None,
        timeout: float | None = None,
        check: bool = False,
    ) -> ExecResult:
        """Run a program and return how it ended and what it wrote, once it has ended.

        It returns when the program itself has ended, even if it left others running. A broken connection is joined again; Ctrl-C ends
        the program inside. Of each stream up to 8 MiB are kept, head and tail.

        Args:
            machine: name, id, or `Machine`.
            command: text for the machine's shell, or a list: the program and its arguments, which no shell sees.
            cwd: absolute, or relative to the user's home; None: the image's own, else the home.
            environment: variables beside the machine's own.
            user: name, ``uid`` or ``uid:gid`` inside; None: the image's own, else root.
            stdin: bytes, text or a file of bytes; None: nothing to read.
            timeout: seconds after which the program and all that it started are ended; None: none.
            check: raise as `ExecResult.check` does.

        Raises:
            ExecFailedError: it could not be started; with `check` also where it failed.
            MachineStateError, MachineLostError: the machine does not run, or ended meanwhile; `start` starts a stopped one.
        """
        result = self.prepare(machine, command, cwd=cwd, environment=environment, user=user, stdin=stdin, timeout=timeout).run()
        return result.check() if check else result

    def prepare(
        self,
        machine: MachineRef,
        command: Command,
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: Stdin = None,
        timeout: float | None = None,
    ) -> Foreground | Fed:
        """Return what `exec` runs: its `run` runs the program, its `end` ends it from another thread."""
        request = exec_request(command, cwd=cwd, environment=environment, user=user, timeout=timeout)
        small = small_stdin(stdin)
        if stdin is not None and small is None:
            return Fed(self.calls, machine, request, stdin_file(stdin))
        return Foreground(self.calls, machine, request if small is None else {**request, "stdin": stdin_member(small)})

    def stream_exec(
        self,
        machine: MachineRef,
        command: Command,
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: Stdin | Literal["open"] = None,
        timeout: float | None = None,
        tty: Mapping[str, int] | None = None,
    ) -> ExecStream:
        """Run a program and iterate over its output as it comes; see `exec` for the arguments.

        Args:
            machine: name, id, or `Machine`.
            command: as in `exec`.
            cwd: as in `exec`.
            environment: as in `exec`.
            user: as in `exec`.
            stdin: as in `exec` up to 16 MiB of bytes or text; the text ``"open"`` leaves it open for `write_stdin` and `close_stdin`.
            timeout: as in `exec`.
            tty: ``{"rows": 24, "columns": 80}`` gives it a terminal of that size, and standard input is open.

        Example:
            >>> with machines.stream_exec("box", "make test") as running:  # doctest: +SKIP
            ...     for event in running:
            ...         print(event.data, end="")
            ...     running.wait().check()
        """
        request = exec_request(command, cwd=cwd, environment=environment, user=user, timeout=timeout, tty=tty)
        if tty is not None or (isinstance(stdin, str) and stdin == "open"):
            start = {**request, "stdin": ""}
            return ExecStream(self.calls, machine, AttachedSocket(self.calls, machine, start=start), owned=True)
        small = small_stdin(stdin)
        if stdin is not None and small is None:
            raise InvalidValueError(
                "stdin is a file or longer than 16 MiB; expected less.", hint="Pass stdin='open' and use write_stdin and close_stdin."
            )
        body = {**request, "stream": True} | ({} if small is None else {"stdin": stdin_member(small)})
        return ExecStream(self.calls, machine, StreamedReply(self.calls, machine, body), owned=True)

    def start_exec(
        self,
        machine: MachineRef,
        command: Command,
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: bytes | str | None = None,
        timeout: float | None = None,
        tty: Mapping[str, int] | None = None,
    ) -> StartedExec:
        """Start a program in the background and return its id; it runs on when this process ends. See `exec` for the arguments."""
        request = exec_request(command, cwd=cwd, environment=environment, user=user, timeout=timeout, tty=tty)
        body = {**request, "detach": True} | ({} if stdin is None else {"stdin": stdin_member(stdin)})
        return StartedExec.of_wire(Foreground(self.calls, machine, body).start())

    def attach(self, machine: MachineRef, exec_id: str, *, since: Literal["start", "now"] = "start") -> ExecStream:
        """Attach to a program: its output so far as far as it is kept, or only what comes from now on, and then all that follows.

        Its standard input can be written if it was left open. Closing the stream leaves the program running.
        """
        if since not in ("start", "now"):
            raise InvalidValueError(f"since={since!r:.40} was given; expected 'start' or 'now'.")
        return ExecStream(self.calls, machine, AttachedSocket(self.calls, machine, exec_id=exec_id, since=since), owned=False)

    def list_execs(self, machine: MachineRef) -> list[ListedExec]:
        """Return the programs that run, left others running, or ended within the last ten minutes."""
        reply = self.calls.json("GET", path_of(machine, "exec"))
        if not isinstance(reply, dict) or not isinstance(reply.get("execs"), list):
            raise ReplyError(f"The server answered with {reply!r:.100}; expected a list of programs.")
        return [ListedExec.of_wire(item) for item in reply["execs"]]

    def get_exec(self, machine: MachineRef, exec_id: str) -> ExecResult:
        """Return how a program ended, with what is kept of its output.

        Before its end `state` is ``"running"``, `exit_code` None and the output empty: `attach` shows that.
        """
        return self._outcome(machine, exec_id, 0.0)

    def wait_exec(self, machine: MachineRef, exec_id: str, *, timeout: float | None = None) -> ExecResult:
        """Wait for the end of a program; after `timeout` seconds its `state` may still be ``"running"``, and it runs on."""
        if timeout is not None:
            check_seconds("timeout", timeout)
        left_s = float("inf") if timeout is None else timeout
        while True:
            wait_s = min(left_s, _LONGEST_WAIT_S)
            result = self._outcome(machine, exec_id, wait_s)
            left_s -= wait_s
            if result.state != "running" or left_s <= 0:
                return result

    def signal_exec(self, machine: MachineRef, exec_id: str, signal: str = "TERM", *, tree: bool = False) -> int:
        """Send a signal, named without ``SIG``, to a program, or with `tree` to all that it started too; returns to how many."""
        reply = self.calls.json("POST", path_of(machine, "exec", exec_id, "signal"), body={"signal": signal, "tree": tree})
        return int(reply.get("signalled", 0))

    def end_exec(self, machine: MachineRef, exec_id: str) -> None:
        """End a program and all that it started; returns once nothing of it is left."""
        self.calls.json("DELETE", path_of(machine, "exec", exec_id), timeout_s=_END_TIMEOUT_S)

    def _outcome(self, machine: MachineRef, exec_id: str, wait_s: float) -> ExecResult:
        query = {"wait": f"{wait_s:g}", "output": "true"}
        outcome = self.calls.json("GET", path_of(machine, "exec", exec_id), query=query, timeout_s=wait_s + 60.0)
        return read_result({"exit_code": None, **outcome} if isinstance(outcome, dict) else outcome)
