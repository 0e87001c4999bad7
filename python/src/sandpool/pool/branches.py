"""A pool's batches that copy rows, beside its others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sandpool.errors import ForkUnsupportedError, ReplyError, StateLostError, StateNotFoundError
from sandpool.pool.batches import Batches, ResetBatch
from sandpool.pool.channel import BatchChannel
from sandpool.pool.pairs import Pairs, fork_pairs, restore_pairs
from sandpool.pool.replies import sparse_infos_of
from sandpool.pool.requests import copy_request, save_request
from sandpool.pool.selection import Selection
from sandpool.pool.state import State, check_states, read_states
from sandpool.pool.timeouts import Timeouts
from sandpool.wire.message import Message

Reseeded = dict[int, list[str]]


class CopyBatch(NamedTuple):
    """What a fork or a restore brought.

    Attributes:
        reset: as of a reset of the targets.
        pairs: the copies that were made.
        warnings: texts of the server, not escaped.
    """

    reset: ResetBatch
    pairs: Pairs
    warnings: Sequence[str]


class Branches(Batches):
    """Sends also forks, saves and restores; the arguments are those of `RLPool`.

    Attributes:
        reseeded: by target of the last fork or restore what was reseeded in it; only where that was asked for.
    """

    def __init__(self, channel: BatchChannel, timeouts: Timeouts, layout: dict[str, Any], n: int) -> None:
        super().__init__(channel, timeouts, layout, n)
        self.reseeded: Reseeded = {}

    def fork(self, src: object, dst: object, reseed: object, *, copy: bool = True) -> CopyBatch:
        """Make rows copies of rows."""
        return self._copy("fork", fork_pairs(src, dst, self.n), reseed, copy)

    def restore(self, states: object, where: object, reseed: object, pool_id: str, *, copy: bool = True) -> CopyBatch:
        """Make rows copies of states; errors that are about states have them as they were given."""
        given = check_states(states, pool_id)
        try:
            return self._copy("restore", restore_pairs(given, where, self.n), reseed, copy)
        except (ForkUnsupportedError, StateNotFoundError, StateLostError) as error:
            error.given_states = {state.id: state for state in given}
            raise

    def save(self, selection: Selection, pool_id: str) -> list[State]:
        """Keep copies of rows; one state for each, in the order in which they were selected."""
        if selection.count == 0:
            return []

        def absorb(message: Message) -> list[State]:
            states = read_states(message.members, pool_id)
            if [state.row for state in states] != list(selection.indices()):
                raise ReplyError(f"The reply has states of the rows {[state.row for state in states]!r:.200}; expected those selected.")
            self.errors = {}
            return states if selection.order is None else _in_order(states, selection.order.tolist())

        content_type, encode = save_request(selection)
        return self._exchange("save", content_type, encode, absorb, self._timeouts.branch_s)

    def _copy(self, operation: str, pairs: Pairs, reseed: object, copy: bool) -> CopyBatch:
        content_type, encode = copy_request(pairs, reseed, self.n)
        if not pairs.targets:
            self.errors, self.reseeded = {}, {}
            return CopyBatch(ResetBatch(self.observations.last(copy=copy), {}, {}), pairs, ())

        def absorb(message: Message) -> CopyBatch:
            rows = list(pairs.selection.indices())
            infos = sparse_infos_of(message, self.n)
            self._note_start(pairs.selection, infos)
            self.reseeded = _read_reseeded(message, rows)
            observations = self._absorb(message, pairs.selection, infos, copy)
            warnings = list(map(str, message.members.get("warnings") or ()))
            return CopyBatch(ResetBatch(observations, infos, self.errors), pairs, warnings)

        return self._exchange(operation, content_type, encode, absorb, self._timeouts.branch_s)


def _read_reseeded(message: Message, rows: list[int]) -> Reseeded:
    given = message.members.get("reseeded") or [None] * len(rows)
    if not isinstance(given, list) or len(given) != len(rows):
        raise ReplyError(f"The reply has reseeded={given!r:.100}; expected a list of {len(rows)}, one for each copy.")
    return {row: list(map(str, names)) for row, names in zip(rows, given, strict=True) if names is not None}


def _in_order(states: list[State], order: list[int]) -> list[State]:
    by_place = dict(zip(order, states, strict=True))
    return [by_place[place] for place in range(len(states))]
