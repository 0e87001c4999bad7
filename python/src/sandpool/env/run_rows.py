"""One message for several rows: a row's failure is its own, and time is shared among the rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sandpool.env.alarm import OutOfTimeError
from sandpool.env.errors import error_text, kind_of
from sandpool.env.row_text import row_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from sandpool.env.encoding import Output
    from sandpool.env.rows import Rows


class Run:
    """A message while its rows are asked. Subclasses say what a row is asked and what becomes of the answer."""

    def __init__(self, owner: Rows, rows: Any) -> None:
        self.owner = owner
        self.rows = rows
        self.place = -1
        self.infos: list[str] = []
        self.errors: list[str] = []

    def take(self, items: Iterator[Any]) -> None:
        """Ask the rows of the items one after another, and leave with the place of the last one in `place`."""
        raise NotImplementedError

    def each(self, items: Iterable[Any]) -> None:
        """Take all items, whose first part is a place; what is raised is the failure of the place it was raised at.

        After an interruption each further item has half of the time that is left, and where none is left it fails unasked.
        """
        rest = iter(items)
        while not self.attempt(rest) and not self.owner.alarm.rang:
            pass
        for item in rest:
            if self.owner.alarm.share():
                self.attempt(iter((item,)))
            else:
                self.place = item[0]
                self.fail(OutOfTimeError("not asked: other rows of its process used up the time of the message"))

    def attempt(self, items: Iterator[Any]) -> bool:
        """Whether all items were taken without a failure."""
        alarm = self.owner.alarm
        alarm.running = True
        try:
            self.take(items)
        except (Exception, OutOfTimeError) as error:
            alarm.running = False
            self.fail(error)
            return False
        finally:
            alarm.running = False
        return True

    def fail(self, error: BaseException) -> None:
        """Note that the row at `place` failed; its environment is given up."""
        row = self.rows[self.place]
        self.owner.lose(row)
        self.errors.append(f'"{row}":{error_text(kind_of(error), error)}')

    def fail_call(self, error: BaseException) -> None:
        """For what leaves an episode as it is: only after an interruption nobody knows the environment's state."""
        kind = kind_of(error)
        if kind == "exception":
            self.errors.append(f'"{self.rows[self.place]}":{error_text(kind, error)}')
        else:
            Run.fail(self, error)

    def note(self, place: int, info: Any) -> None:
        """Keep an info that is not empty."""
        output = self.owner.output
        self.infos.append(f'"{self.rows[place]}":{row_text(_info_text, info, output)}')

    def finish(self, identity: Any, columns: str) -> bytes | list[Any]:
        """The reply with its columns, each begun with a comma."""
        errors = f',"errors":{{{",".join(self.errors)}}}' if self.errors else ""
        return self.owner.output.finish(f'{{"id":{json.dumps(identity)}{columns}{errors}')


def _info_text(info: Any, output: Output) -> str:
    return output.encode_info(info)
