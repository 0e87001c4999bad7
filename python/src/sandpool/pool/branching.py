"""The part of `RLPool` that makes rows live copies of others, and keeps rows to go back to."""

from __future__ import annotations

from typing import Any

from sandpool.escape import escape_untrusted
from sandpool.pool.branches import Branches, CopyBatch, Reseeded
from sandpool.pool.selection import select_rows
from sandpool.pool.state import State, check_states, read_states
from sandpool.stream.stepping import AsynchronousStepping
from sandpool.warn import warn_user


class BranchedPool(AsynchronousStepping):
    """`fork`, `save`, `restore`, `drop` and `states`. Each call does all it was asked, or changes nothing.

    They are batches as steps are: refused while rows are out, and executed once however often the connection breaks.
    """

    batches: Branches

    @property
    def reseeded(self) -> Reseeded:
        """By row what the last fork or restore reseeded, such as ``["random", "np_random"]``; only rows for which it was asked."""
        return self.batches.reseeded

    def fork(self, src: Any, dst: Any, *, reseed: Any = False) -> Any:
        """Make rows live copies of others as they are now and return observations, n rows, as `reset` does.

        A copy has its source's memory and files and goes on as it does: last observation, info in `reset_infos`, a pending end of
        episode. Its own process and workspace before are gone. Rows that are no target keep their last observation.

        Args:
            src: a row that all targets become copies of, or a list of rows, one for each target. A row may be source and target.
            dst: a row, a list of rows or a bool mask ``(n,)``; each at most once. An empty one does nothing.
            reseed: False or None: exact copies. An integer s: row i gets the seed s+i; a list: one for each copy in the order of
                `dst`, None for none; True: derived from the pool's seed. What it reached is in `reseeded`.

        Raises:
            InvalidValueError, InvalidTypeError: wrong rows, counts or seeds; nothing was sent.
            ForkUnsupportedError: a source cannot be copied; `sources` says why. Nothing has changed.

        Example:
            >>> obs = pool.fork(0, range(1, pool.n), reseed=True)  # doctest: +SKIP
        """
        self._check_open()
        return self._told(self.batches.fork(src, dst, reseed))

    def save(self, where: Any = None) -> list[State]:
        """Keep copies of rows as they are now and return one state for each, in the order of `where`; a mask's ascend.

        Args:
            where: bool mask ``(n,)`` or row indices; None for all rows.

        A state takes memory until it is dropped or the pool ends: what the row changes after it. One whose save was interrupted is
        in `states`.

        Raises:
            ForkUnsupportedError: a row cannot be copied; `sources` says why. Nothing was kept.
            LimitError: the pool would have more states, or bytes of them, than it may. Nothing was kept.

        Example:
            >>> (state,) = pool.save(where=[0])  # doctest: +SKIP
        """
        self._check_open()
        return self.batches.save(select_rows(where, self.n), self.id)

    def restore(self, states: Any, where: Any = None, *, reseed: Any = False) -> Any:
        """Make rows live copies of states and return observations, n rows, as `fork` does. The states stay.

        Args:
            states: a State, or a list of them.
            where: target rows in the order of the states, or a bool mask ``(n,)`` whose rows ascend; one state goes to all of them.
                None: each goes to the row it came from.
            reseed: as in `fork`; a list has one for each target.

        Raises:
            InvalidValueError, InvalidTypeError: wrong rows, counts, seeds or a state of another pool; nothing was sent.
            StateNotFoundError, StateLostError: a state was dropped, or ended by itself. Nothing has changed.
            ForkUnsupportedError: a state cannot be copied to its target. Nothing has changed.

        Example:
            >>> obs = pool.restore(state, where=[0, 1, 2], reseed=7)  # doctest: +SKIP
        """
        self._check_open()
        return self._told(self.batches.restore(states, where, reseed, self.id))

    def drop(self, states: Any = None) -> list[str]:
        """End states, all of the pool without an argument, and return the ids of those that were there."""
        self._check_open()
        ids = None if states is None else [state.id for state in check_states(states, self.id)]
        if ids == []:
            return []
        reply = self._server.request_json("DELETE", ("pools", self.id, "states"), body={"states": ids}, timeout_s=self._timeouts.branch_s)
        return reply["dropped"]  # type: ignore[no-any-return]

    def states(self, memory: bool = False) -> list[State]:
        """Return the pool's states, oldest first, also those that other clients saved; with `memory` also their sizes."""
        self._check_open()
        query = {"memory": "true"} if memory else None
        reply = self._server.request_json("GET", ("pools", self.id, "states"), query=query, timeout_s=self._timeouts.branch_s)
        return read_states(reply, self.id)

    def _told(self, batch: CopyBatch) -> Any:
        warn_of(batch)
        if batch.reset.errors:
            self._reporter.report(batch.reset.errors, batch.reset.obs)
        return batch.reset.obs


def warn_of(batch: CopyBatch) -> None:
    """Tell the user what the server warns of."""
    for text in batch.warnings:
        warn_user(escape_untrusted(text))
