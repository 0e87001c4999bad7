"""Where results go in an asyncio pool: to the one who checked the row out, else to the next `recv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sandpool.aio.desk import Desk
from sandpool.aio.turns import Turns
from sandpool.errors import SandpoolError
from sandpool.stream.connection import Receiver
from sandpool.stream.results import Part, pick_rows
from sandpool.stream.session import Session


class Owner(Protocol):
    """Someone who has a row.

    Attributes:
        has_left: whether it only waits for what is out.
    """

    has_left: bool

    async def come_back(self) -> None:
        """Wait until nothing of the row is out."""

    def accept(self, part: Part, place: int) -> None:
        """Take the row's result, at a place of a part."""

    def reject(self, error: SandpoolError, *, is_back: bool) -> None:
        """Take an error instead; with `is_back` the row is out no longer."""


class OwnedRows(Receiver):
    """Rows checked out from the desk; gives each result to the owner of its row, and to the session those of rows without one."""

    def __init__(self, session: Session, desk: Desk, turns: Turns) -> None:
        super().__init__(session)
        self._owners: dict[int, Owner] = {}
        self._desk = desk
        self._turns = turns

    def __len__(self) -> int:
        return len(self._owners)

    def add(self, row: int, owner: Owner) -> None:
        """Make someone the owner of a row taken from the desk."""
        self._owners[row] = owner
        self.session.owned.add(row)

    def give_back(self, row: int) -> None:
        """Let a row have no owner, and let the next one have it."""
        del self._owners[row]
        self.session.owned.discard(row)
        self._desk.give(row)

    async def wait_for_left(self) -> None:
        """Wait for the rows that were left before their result came: nobody else can."""
        for owner in [owner for owner in self._owners.values() if owner.has_left]:
            await owner.come_back()

    def deliver(self, part: Part) -> None:
        """Take the rows of one message."""
        free = [place for place, row in enumerate(part.rows) if row not in self._owners]
        if len(free) == len(part.rows):
            self.session.add_ready(part)
        elif free:
            self.session.add_ready(pick_rows(part, free, self.session.observations))
        for place, row in enumerate(part.rows):
            if row in self._owners:
                self._owners[row].accept(part, place)
        self._look_for_quiet()

    def refuse(self, rows: Sequence[int], error: SandpoolError) -> None:
        """Take the refusal of a message; its rows are out no longer."""
        if any(row not in self._owners for row in rows):
            self.session.add_refusal(error)
        for row in rows:
            if row in self._owners:
                self._owners[row].reject(error, is_back=True)
        self._look_for_quiet()

    def fail(self, error: SandpoolError, *, forget: bool) -> None:
        """Take the end of the stream; with `forget` nothing is out any longer."""
        had_free = bool(self.session.rows_out())
        self.session.fail(error, forget=forget)
        # Nobody who could receive it may be left: then it must not wait for the next one.
        if not had_free and self._owners:
            self.session.failure = None
        for owner in list(self._owners.values()):
            owner.reject(error, is_back=forget)
        self._desk.fail(error)
        self._turns.fail(error)
        self._look_for_quiet()

    def _look_for_quiet(self) -> None:
        if not self.session.is_busy:
            self._turns.become_quiet()
