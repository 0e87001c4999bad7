"""Several environments in one process, asked with one message for many of them."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from sandpool.env.alarm import Alarm
from sandpool.env.call_rows import CALLS, call_rows
from sandpool.env.cast_rows import ActionCaster
from sandpool.env.describing import describe
from sandpool.env.encoding import Output
from sandpool.env.reset_rows import reset_rows
from sandpool.env.stack import Stack
from sandpool.env.step_rows import step_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sandpool.env.environments import Environment


class Rows:
    """The environments of a process, by their numbers inside it. One that failed is none until its next reset makes it anew."""

    operations = frozenset(("step", "reset", *CALLS))
    packed = True

    def __init__(self, make: Callable[[int], Environment], count: int, first: Environment | None = None) -> None:
        self.make = make
        made = [first or make(0), *map(make, range(1, count))]
        self.announced = made[0].announced
        self.environments: list[Environment | None] = [*made]
        self.steps = [environment.step for environment in made]
        self.failed: dict[int, Environment] = {}
        self.all = range(count)
        self.seeded = False
        self.output = Output()
        self.alarm = Alarm()
        self.stack = Stack(getattr(self.announced, "observation_space", None), count, self.output)
        self.actions = ActionCaster(made[0].action_space)

    @property
    def first(self) -> Environment | None:
        return self.environments[0]

    def describe(self, features: tuple[str, ...]) -> str:
        return describe(self.announced, features, len(self.all))

    def answer(self, operation: str, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        """The reply to a message for some rows. Raises what fails all of them."""
        rows = rows_of(request, self.all)
        self.output.start()
        self.alarm.set(request.get("deadline_ms"))
        try:
            if operation == "step":
                return step_rows(self, rows, identity, request, raw)
            if operation == "reset":
                return reset_rows(self, rows, identity, request, raw)
            return call_rows(self, operation, rows, identity, request, raw)
        finally:
            self.alarm.stop()

    def lose(self, row: int) -> None:
        """Give up the row's environment, whose state nobody knows now."""
        environment = self.environments[row]
        if environment is not None:
            self.failed[row] = environment
        self.environments[row] = None
        self.steps[row] = _refuse_step

    def renew(self, row: int) -> Environment:
        """Close what the row had and make its environment anew."""
        self.lose(row)
        old = self.failed.pop(row, None)
        if old is not None and old.close is not None:
            try:
                old.close()
            except Exception:
                traceback.print_exc()
        made = self.environments[row] = self.make(row)
        self.steps[row] = made.step
        return made

    def reseed(self, seed: int) -> list[str]:
        done: list[str] = []
        for row, environment in enumerate(self.environments):
            if environment is not None:
                done = environment.reseed(seed + row) or done
        return done

    def close(self) -> None:
        """Close every environment; raises the last failure."""
        failure = None
        for environment in (*self.environments, *self.failed.values()):
            try:
                if environment is not None and environment.close is not None:
                    environment.close()
            except Exception as error:
                failure = error
        if failure is not None:
            raise failure


def rows_of(request: dict[str, Any], every: range) -> Any:
    """The numbers of the rows a message is for, inside the process; `every` itself where it is for all."""
    rows = request.get("rows")
    if rows is None:
        return every
    ascending = type(rows) is list and all(type(row) is int for row in rows) and sorted(set(rows)) == rows
    if not ascending or (rows and not 0 <= rows[0] <= rows[-1] < len(every)):
        raise ValueError(f"rows is {rows!r:.200}; expected null or ascending numbers below {len(every)}")
    return every if len(rows) == len(every) else rows


def _refuse_step(action: Any) -> Any:
    raise RuntimeError("the row failed and was not reset since; reset it before its next step")
