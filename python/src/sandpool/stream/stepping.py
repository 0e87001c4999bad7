"""The part of `RLPool` that sends rows off and receives them in the order in which they finish."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sandpool.pool.batches import Batches
from sandpool.pool.channel import BatchChannel
from sandpool.pool.endpoint import Target
from sandpool.pool.handle import PoolHandle
from sandpool.pool.options import check_count, check_seconds
from sandpool.pool.report import Reporter
from sandpool.pool.selection import Rows
from sandpool.stream.absorb import absorb_parts
from sandpool.stream.entries import Entry, make_resets, make_steps
from sandpool.stream.results import ReceivedResult

if TYPE_CHECKING:
    from sandpool.stream.threaded import ThreadedStream

# A pool has one stream, also when a sender and a receiver begin at the same moment.
_MAKING = threading.Lock()


class StreamNeeds(NamedTuple):
    """What a stream of a pool is made of, for those who run one themselves."""

    target: Target
    batches: Batches
    reporter: Reporter
    channel: BatchChannel
    silence_s: float


class AsynchronousStepping(PoolHandle):
    """`send`, `send_reset` and `recv`: a slow environment never holds the fast ones.

    One thread may send while another receives. Lock-step batches (`reset`, `step`, `call`) take turns with it: they are refused
    while rows are out.
    """

    batches: Batches
    _reporter: Reporter
    _stream: ThreadedStream | None = None

    @property
    def rows_out(self) -> Rows:
        """Indices of the rows that were sent and whose results no `recv` has returned, int64, ascending."""
        stream = self._stream
        return np.array([] if stream is None or stream.inherited else stream.session.rows_out(), np.int64)

    def send(self, actions: Any, where: Any = None) -> None:
        """Send steps off and return at once; each row's result comes with a later `recv`.

        Args:
            actions: array or list with one action for each selected row, in the order of `where`, or one for each of the n rows.
            where: bool mask ``(n,)`` or row indices; None for all rows. None of them may be out.

        Raises:
            InvalidValueError, InvalidTypeError: wrong count, shape or type; nothing was sent.
            PoolBusyError: one of the rows is out; nothing was sent.

        Example:
            >>> pool.send_reset()  # doctest: +SKIP
            >>> while training:  # doctest: +SKIP
            ...     ready = pool.recv(min_ready=8)
            ...     pool.send(policy(ready.obs), where=ready.index)
        """
        self._check_open()
        self._send(make_steps(actions, where, self.n, self.action_space))

    def send_reset(self, where: Any = None, seed: Any = None, options: Any = None, hard: bool = False) -> None:
        """Send resets off and return at once.

        Args:
            where: bool mask ``(n,)`` or row indices; None for all rows. None of them may be out.
            seed: None, an integer s (row i gets s+i), or a list with one for each selected row, in the order of `where`, or n.
            options: a dict for all, or a list of dicts likewise: a task a row.
            hard: kill the process, wipe its workspace and start it anew first.
        """
        self._check_open()
        self._send(make_resets(seed, options, hard, where, self.n))

    def recv(self, min_ready: int = 1, timeout: float | None = None) -> ReceivedResult:
        """Wait until results of `min_ready` rows are there and return all that are, in the order in which they finished.

        Args:
            min_ready: how many rows at least; never more than are out.
            timeout: seconds to wait at most; None as long as the pool's deadlines allow.

        Raises:
            NotReadyError: a TimeoutError, `timeout` passed. Nothing is lost: the next `recv` returns what is ready then.
            InvalidValueError: fewer rows are out than asked for, which would never end.
            RequestRefusedError: the pool refused what a `send` asked; nothing of that was sent to any row.
            RowsFailedError: a row failed, only with ``errors="raise"``; all rows are in its `result`.
            PoolLostError: the pool has ended.
        """
        self._check_open()
        check_count("min_ready", min_ready)
        if timeout is not None:
            check_seconds("timeout", timeout)
        return absorb_parts(self._own_stream().receive(int(min_ready), timeout), self.batches, self._reporter)

    def _send(self, entry: Entry) -> None:
        if entry.rows:
            stream = self._own_stream()
            self._channel.settle()
            stream.send(entry)

    def _own_stream(self) -> ThreadedStream:
        with _MAKING:
            stream = self._stream
            if stream is None or stream.inherited:
                stream = self._make_stream(stream)
            stream.start()
        return stream

    def stream_needs(self) -> StreamNeeds:
        """Return what a stream is made of; not for users, who have `send` and `recv`."""
        silence_s = max(self._timeouts.step_s, self._timeouts.reset_s)
        return StreamNeeds(Target(self._endpoint, self.id), self.batches, self._reporter, self._channel, silence_s)

    def _make_stream(self, predecessor: ThreadedStream | None) -> ThreadedStream:
        # Imported when first used: a pool that only steps in batches needs no WebSocket.
        from sandpool.stream.threaded import ThreadedStream

        needs = self.stream_needs()
        observations, timing = self.batches.observations, self.batches.timing
        self._stream = ThreadedStream(needs.target, self.n, observations, timing, needs.silence_s, predecessor)
        weakref.finalize(self, self._stream.end)
        self._channel.guard = self._stream.refuse_batch
        return self._stream

    def _let_go(self) -> bool:
        if self._stream is not None:
            self._stream.close()
        return super()._let_go()
