"""A running program, seen as it writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from sandpool.errors import ConnectionLostError, NotFoundError, ReplyError, SandpoolError, error_from_reply
from sandpool.execs.frames import CONTROL, STDERR, STDIN, STDOUT, Frame
from sandpool.execs.output import Keeper, text_decoder
from sandpool.execs.result import ExecResult, read_streamed
from sandpool.execs.sources import FrameSource
from sandpool.machines.description import MachineRef, path_of
from sandpool.transport.calls import Calls, is_break, repeat_when_broken

_NAMES = {STDOUT: "stdout", STDERR: "stderr"}
_KILL_TIMEOUT_S = 30.0
_MOST_BREAKS = 20


@dataclass(frozen=True)
class ExecEvent:
    """A piece of output.

    Attributes:
        kind: ``"stdout"`` or ``"stderr"``; with a terminal all is ``"stdout"``.
        data: text. A character whose bytes came in two pieces is in the second one's; what is no UTF-8 becomes U+FFFD.
        raw: the very bytes of the piece.
    """

    kind: str
    data: str
    raw: bytes


class ExecStream:
    """A running program: iterate over its output, `wait` for its end.

    While nobody reads, the program waits, as with a pipe. It is ended when a ``with`` block around it is left before its end, by Ctrl-C
    too; one that was attached to runs on.

    Attributes:
        id: of the exec; `attach` finds it again.
        pid: its number inside the machine, or None where it has ended.
        dropped: bytes of ``"stdout"`` and ``"stderr"`` that were no longer there when it was attached to.
    """

    def __init__(self, calls: Calls, machine: MachineRef, source: FrameSource, *, owned: bool) -> None:
        self._calls, self._machine, self._source, self._owned = calls, machine, source, owned
        self._kept = {STDOUT: Keeper(), STDERR: Keeper()}
        self._decoders = {kind: text_decoder() for kind in _NAMES}
        self._outcome: Mapping[str, Any] | None = None
        self._sending = threading.Lock()
        self._breaks = 0
        self._closed = False
        try:
            self._frames, first = repeat_when_broken(self._begin) if source.joins else self._begin()
        except BaseException:
            source.close()
            raise
        self.id = str(first["id"])
        self.pid: int | None = first.get("pid")
        self.dropped: dict[str, int] = dict(first.get("dropped") or {})
        self._events = self._read()

    def __iter__(self) -> Iterator[ExecEvent]:
        return self._events

    def __next__(self) -> ExecEvent:
        return next(self._events)

    def wait(self) -> ExecResult:
        """Read the rest of the output and return how the program ended, with head and tail of all that it wrote."""
        for _ in self._events:
            pass
        if self._outcome is None:
            raise ConnectionLostError(f"The program {self.id} was let go before its end; expected one that is read to it.")
        return read_streamed(self._outcome, self._kept[STDOUT], self._kept[STDERR])

    def write_stdin(self, data: bytes | str) -> None:
        """Write to the program's standard input; waits while it does not read. Only where it was left open."""
        with self._sending:
            self._source.send(STDIN, data.encode() if isinstance(data, str) else bytes(data))

    def close_stdin(self) -> None:
        """Close the program's standard input, after all that was written."""
        self._control({"end_stdin": True})

    def resize(self, rows: int, columns: int) -> None:
        """Give the program's terminal another size."""
        self._control({"resize": {"rows": rows, "columns": columns}})

    def signal(self, signal: str = "TERM", *, tree: bool = False) -> int:
        """Send a signal, named without ``SIG``, to the program, or with `tree` to all that it started too; returns to how many."""
        path = path_of(self._machine, "exec", self.id, "signal")
        return int(self._calls.json("POST", path, body={"signal": signal, "tree": tree}).get("signalled", 0))

    def kill(self) -> None:
        """End the program and all that it started, and wait until nothing of it is left. What it wrote can still be read."""
        # One that ended long ago is no longer known, and as dead as it can be.
        with suppress(NotFoundError):
            self._calls.json("DELETE", path_of(self._machine, "exec", self.id), timeout_s=_KILL_TIMEOUT_S)

    def close(self) -> None:
        """Let go of the program. One that was started here, not attached to, is ended."""
        if self._closed:
            return
        self._closed = True
        if self._outcome is None and self._owned:
            with suppress(SandpoolError):
                self.kill()
        self._source.close()
        # Not left to the collector, for they hold the connection. One that another thread is in comes to its end there.
        for generator in (self._events, self._frames):
            with suppress(ValueError):
                generator.close()

    def __enter__(self) -> ExecStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ExecStream {self.id}, {'running' if self._outcome is None else 'ended'}>"

    def _control(self, message: Mapping[str, Any]) -> None:
        with self._sending:
            self._source.send(CONTROL, json.dumps(message).encode())

    def _begin(self) -> tuple[Generator[Frame, None, None], dict[str, Any]]:
        frames = self._source.frames()
        frame = next(frames, None)
        if frame is None:
            raise ConnectionLostError("The connection ended before the program was told to have started.")
        first = frame.control() if frame.kind == CONTROL else {}
        if "error" in first:
            raise error_from_reply(422, first)
        if "id" not in first:
            raise ReplyError(f"The first frame of a program is {frame.data[:80]!r}; expected its id.")
        return frames, first

    def _read(self) -> Generator[ExecEvent, None, None]:
        try:
            skip = {STDOUT: 0, STDERR: 0}
            while True:
                yield from self._read_on(skip)
                if self._outcome is not None:
                    break
                skip = self._join_again()
        except (KeyboardInterrupt, GeneratorExit):
            self.close()
            raise
        for kind, name in _NAMES.items():
            if rest := self._decoders[kind].decode(b"", final=True):
                yield ExecEvent(name, rest, b"")

    def _read_on(self, skip: dict[int, int]) -> Iterator[ExecEvent]:
        """Read until the end or until the way breaks, but for the first `skip` bytes of each stream, which were here already."""
        try:
            for frame in self._frames:
                if frame.kind == CONTROL:
                    self._take_control(frame.control())
                    continue
                fresh = frame.data[skip[frame.kind] :]
                skip[frame.kind] = max(0, skip[frame.kind] - len(frame.data))
                if fresh:
                    self._breaks = 0
                    self._kept[frame.kind].add(fresh)
                    yield ExecEvent(_NAMES[frame.kind], self._decoders[frame.kind].decode(fresh), fresh)
        except SandpoolError as error:
            if not is_break(error):
                raise

    def _take_control(self, message: dict[str, Any]) -> None:
        if "error" in message:
            raise error_from_reply(500, message)
        outcome = message.get("exit", message)
        if "exit_code" in outcome:
            self._outcome = outcome

    def _join_again(self) -> dict[int, int]:
        """Start the way anew; returns how much of what comes is here already."""
        self._breaks += 1
        if not self._source.joins or self._breaks > _MOST_BREAKS:
            raise self._lost("broke before its end", "")
        self._frames, first = repeat_when_broken(self._begin, has_begun=True)
        if any(int(count) > 0 for count in (first.get("dropped") or {}).values()):
            raise self._lost("broke, and part of its output is no longer kept", ", from what is kept")
        return {kind: kept.total_bytes for kind, kept in self._kept.items()}

    def _lost(self, what: str, whence: str) -> ConnectionLostError:
        return ConnectionLostError(
            f"The connection to the program {self.id} {what}.",
            hint=f"While it runs, attach(machine, {self.id!r}) leads to it again{whence}.",
            details={"exec": self.id},
        )
