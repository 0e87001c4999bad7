"""A row at one moment, kept by its pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandpool.errors import InvalidTypeError, InvalidValueError, ReplyError
from sandpool.escape import escape_untrusted


@dataclass(frozen=True, repr=False)
class State:
    """A saved row, to be restored any number of times, until it is dropped or its pool ends.

    Two are equal if they are the same one of the same pool. The other attributes are as of the call that returned it.

    Attributes:
        id: its name in the pool.
        pool_id: the pool's id.
        row: the row it was saved from.
        episode: that row's resets by then, as in the pool's status.
        step: steps since the row's last reset.
        seed: what that reset was given, or None.
        created_at: when it was saved, UTC.
        way: ``"fork"``, a process that waits, or ``"state"``, the environment's own state as bytes.
        pending: whether the episode had ended, so that a reset is due.
        lost: why it can be restored no more, in the form of a row's error, or None.
        pss_bytes: its memory, where that was asked for and could be sampled.
    """

    id: str
    pool_id: str
    row: int = field(compare=False)
    episode: int = field(compare=False)
    step: int = field(compare=False)
    seed: int | None = field(compare=False)
    created_at: datetime = field(compare=False)
    way: str = field(compare=False)
    pending: bool = field(compare=False)
    lost: dict[str, Any] | None = field(compare=False)
    pss_bytes: int | None = field(compare=False, default=None)

    def __repr__(self) -> str:
        pending = ", at its end" if self.pending else ""
        lost = f", lost: {escape_untrusted(str(self.lost.get('kind')))}" if self.lost else ""
        return (
            f"<State {self.id} of row {self.row} of {self.pool_id}: episode {self.episode}, step {self.step}, seed {self.seed}, "
            f"{self.way}{pending}{lost}>"
        )


def read_states(members: Any, pool_id: str) -> list[State]:
    """Read the states of a reply; raises ReplyError where it has none."""
    states = members.get("states") if isinstance(members, dict) else None
    try:
        return [_read_state(item, pool_id) for item in states]  # type: ignore[union-attr]
    except (TypeError, KeyError, ValueError) as error:
        raise ReplyError(
            f"The reply has the states {states!r:.200}; expected a list of states ({type(error).__name__}: {error}).",
            hint="Are the server and this client of the same version?",
        ) from error


def check_states(states: object, pool_id: str) -> list[State]:
    """Return one state, or several, as a list.

    Raises:
        InvalidTypeError: something is no state.
        InvalidValueError: one is of another pool.
    """
    given = [states] if isinstance(states, State) else _listed(states)
    for place, state in enumerate(given):
        if not isinstance(state, State):
            raise InvalidTypeError(
                f"states[{place}] is of type {type(state).__name__}; expected a State, as save() and states() return them."
            )
        if state.pool_id != pool_id:
            raise InvalidValueError(
                f"states[{place}] is {state.id} of the pool {state.pool_id}; expected one of the pool {pool_id}.",
                hint="A state can only be used in the pool that saved it.",
            )
    return given


def _listed(states: object) -> list[Any]:
    if isinstance(states, (str, bytes, Mapping)) or not isinstance(states, Iterable):
        raise InvalidTypeError(f"states is of type {type(states).__name__}; expected a State or a list of them.")
    return list(states)


def _read_state(item: dict[str, Any], pool_id: str) -> State:
    return State(
        id=str(item["id"]),
        pool_id=pool_id,
        row=int(item["row"]),
        episode=int(item["episode"]),
        step=int(item["step"]),
        seed=None if item["seed"] is None else int(item["seed"]),
        # Python 3.10 does not read the letter.
        created_at=datetime.fromisoformat(item["created_at"].replace("Z", "+00:00")),
        way=str(item["way"]),
        pending=bool(item["pending"]),
        lost=item["lost"],
        pss_bytes=item.get("pss_bytes"),
    )
