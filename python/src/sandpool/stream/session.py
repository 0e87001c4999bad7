"""The client's side of a stream's session: numbers, kept messages, which rows are out, and results that wait to be taken.

Pure: bytes in, bytes out. One thread feeds and packs; others put entries and take results, under `lock`.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np

from sandpool.errors import InvalidValueError, PoolBusyError, ReplyError, SandpoolError
from sandpool.pool.timing import Timing
from sandpool.stream.entries import Entry
from sandpool.stream.pack import Outgoing, pack_entries
from sandpool.stream.results import Observations, Part, read_part
from sandpool.wire.message import MessageReader


class _Ready:
    """Results that nobody has taken yet."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.rows: set[int] = set()


class _Kept:
    """A message, when it was packed, and how many of its rows are not back."""

    def __init__(self, message: Outgoing, at: float) -> None:
        self.message = message
        self.at = at
        self.left = len(message.rows)


class Session:
    """One session of a pool's stream.

    A row is out from its `put` until its result is taken. What `put` and `take` do to the state is one assignment or one append
    each, so that an interrupt leaves it whole; for the same reason `lock` is no Condition, whose `with` is not safe against one.
    Rows in `owned` are out as any other, and no `take` is told of them: their results go elsewhere.
    """

    def __init__(self, n: int, observations: Observations, timing: Timing) -> None:
        self.n = n
        self.observations = observations
        self.timing = timing
        self.lock = threading.RLock()
        self.failure: SandpoolError | None = None
        self.last_sign = time.monotonic()
        self.owned: set[int] = set()
        self._waiting: deque[Entry] = deque()
        self._apart: list[Entry] = []
        self._refusals: deque[SandpoolError] = deque()
        self._ready = _Ready()
        self._watchers: list[tuple[int, Callable[[], None]]] = []
        self._reader = MessageReader()
        self.renew()

    def renew(self) -> None:
        """Begin a new session: for the first connection, and when the old one is gone and nothing of it was out."""
        self.name = secrets.token_hex(8)
        self.received = 0
        self._number = 0
        self._accepted = 0
        self._kept: dict[int, _Kept] = {}
        self._underway: dict[int, int] = {}

    # For those who use the pool

    def put(self, entry: Entry) -> None:
        """Let an entry wait for the next `pack`; raises PoolBusyError when one of its rows is out."""
        with self.lock:
            self._raise_failure()
            busy = [row for row in entry.rows if self._is_out(row)]
            if busy:
                raise PoolBusyError(
                    f"{len(busy)} of the rows to be sent are out, the first is row {busy[0]}; expected rows whose results were taken.",
                    hint="A row has one thing out at a time: recv() its result first.",
                    details={"rows": busy},
                )
            self._waiting.append(entry)

    def count_out(self) -> int:
        """Count the rows that are out."""
        with self.lock:
            return len(self._underway) + len(self._ready.rows) + sum(len(entry.rows) for entry in self._unpacked())

    def rows_out(self) -> list[int]:
        """Return the rows that are out, ascending, without those that are owned."""
        with self.lock:
            rows = {*self._underway, *self._ready.rows, *(row for entry in self._unpacked() for row in entry.rows)}
            return sorted(rows - self.owned)

    def take(self, min_ready: int) -> list[Part] | None:
        """Take all results that are there, None if they are of fewer than `min_ready` rows.

        Raises the error of a message that the pool refused, the one that ended the stream, or InvalidValueError when fewer rows
        than `min_ready` are out, for that many will never be ready.
        """
        with self.lock:
            if self._refusals:
                raise self._refusals.popleft()
            if len(self._ready.rows) >= min_ready:
                taken, self._ready = self._ready, _Ready()
                return taken.parts
            self._raise_failure()
            out = len(self.rows_out()) if self.owned else self.count_out()
            if out < min_ready:
                raise InvalidValueError(
                    f"recv(min_ready={min_ready}) was called while {out} rows are out; expected at most {out}.",
                    hint="send() or send_reset() first; a recv never waits for what was not sent.",
                )
            return None

    def watch(self, min_ready: int, ring: Callable[[], None]) -> None:
        """Call `ring` once, from the thread that feeds, when a `take` of so many rows would return or raise."""
        with self.lock:
            self._watchers.append((min_ready, ring))

    def unwatch(self, ring: Callable[[], None]) -> None:
        """Forget a `watch`."""
        with self.lock:
            self._watchers = [watcher for watcher in self._watchers if watcher[1] is not ring]

    def count_ready(self) -> int:
        """Count the rows whose results wait to be taken."""
        return len(self._ready.rows)

    # For the connection

    @property
    def has_waiting(self) -> bool:
        """Whether an entry waits to be packed."""
        return bool(self._waiting or self._apart)

    def pack(self) -> list[Outgoing]:
        """Turn the entries that wait into numbered messages, and keep these until their rows are back."""
        with self.lock:
            messages = pack_entries(self._waiting, self._number + 1, self.received)
            for entry in self._apart:
                messages += pack_entries([entry], self._number + 1 + len(messages), self.received)
            self.last_sign = time.monotonic()
            for message in messages:
                self._kept[message.number] = _Kept(message, self.last_sign)
                self._underway.update(dict.fromkeys(message.rows, message.number))
            self._number += len(messages)
            self._waiting.clear()
            self._apart = []
            return messages

    def resume(self, accepted: int, next_result: int) -> list[Outgoing]:
        """Begin on a new connection: return the messages that the pool has not accepted.

        Raises ReplyError when the pool's numbers are not those of this session.
        """
        with self.lock:
            if next_result != self.received + 1 or not self._accepted <= accepted <= self._number:
                raise ReplyError(
                    f"The stream opened with accepted={accepted!r:.40} and next_result={next_result!r:.40}; expected "
                    f"{self._accepted}..{self._number} and {self.received + 1}.",
                    hint="The server does not know this session any more; reset the pool's rows.",
                )
            self.last_sign = time.monotonic()
            return [kept.message for number, kept in sorted(self._kept.items()) if number > accepted]

    def feed(self, data: bytes) -> Part | None:
        """Take a message of results in and return it, None if it came before; it is not ready until `add_ready`."""
        with self.lock:
            message = self._reader.read(np.frombuffer(data, np.uint8))
            number = message.members.get("number")
            if not isinstance(number, int) or number > self.received + 1:
                raise ReplyError(f"The stream's result has the number {number!r:.40}; expected {self.received + 1}.")
            self.last_sign = time.monotonic()
            if number <= self.received:
                return None
            part = read_part(message, self.n, self.observations)
            self.received = number
            oldest = min((self._bring_back(row) for row in part.rows), default=self.last_sign)
            self.timing.record(message.members.get("timing") or {}, (self.last_sign - oldest) * 1e3)
            return part

    def add_ready(self, part: Part) -> None:
        """Let a part wait to be taken."""
        with self.lock:
            self._ready.parts.append(part)
            self._ready.rows.update(part.rows)
            self._ring()

    def refuse(self, number: int) -> list[int]:
        """Take in that the pool refused a message: return its rows, which are out no longer.

        None, if that is known already, or if the message carried several entries: each is then tried alone, for one that the pool
        does not like must not cost the others anything.
        """
        with self.lock:
            self.last_sign = time.monotonic()
            kept = self._kept.pop(number, None)
            if kept is None:
                return []
            self._accepted = max(self._accepted, number)
            for row in kept.message.rows:
                self._underway.pop(row, None)
            if len(kept.message.entries) > 1:
                self._apart += kept.message.entries
                return []
            return kept.message.rows

    def add_refusal(self, error: SandpoolError) -> None:
        """Let the next `take` raise the error of a refused message."""
        with self.lock:
            self._refusals.append(error)
            self._ring()

    def fail(self, error: SandpoolError, *, forget: bool) -> None:
        """Let the next `take` raise `error`; with `forget` nothing is under way any longer."""
        with self.lock:
            self.failure = error
            if forget:
                self._waiting.clear()
                self._apart = []
                self.renew()
            self._ring()

    @property
    def is_busy(self) -> bool:
        """Whether an entry waits or a message lacks results."""
        return bool(self._waiting or self._apart or self._kept)

    @property
    def is_settled(self) -> bool:
        """Whether each message that was sent has its results."""
        return not self._kept

    @property
    def is_new(self) -> bool:
        """Whether nothing was sent in this session."""
        return self._number == 0

    def _ring(self) -> None:
        reached = self.count_ready() if not self._refusals and self.failure is None else self.n
        called = [watcher for watcher in self._watchers if watcher[0] <= reached]
        if called:
            self._watchers = [watcher for watcher in self._watchers if watcher[0] > reached]
            for _, ring in called:
                ring()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def _unpacked(self) -> Iterator[Entry]:
        return chain(self._waiting, self._apart)

    def _is_out(self, row: int) -> bool:
        return row in self._underway or row in self._ready.rows or any(row in entry.rows for entry in self._unpacked())

    def _bring_back(self, row: int) -> float:
        """Take one row of a kept message as done; a message without rows left is kept no longer. Returns when it was sent."""
        number = self._underway.pop(row, 0)
        kept = self._kept.get(number)
        if kept is None:
            raise ReplyError(f"The stream brought a result for row {row}, which was not out.")
        kept.left -= 1
        if kept.left == 0:
            del self._kept[number]
        self._accepted = max(self._accepted, number)
        return kept.at
