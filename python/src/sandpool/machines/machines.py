"""All calls about the machines of a server."""

from __future__ import annotations

from sandpool.execs.execs import Execs
from sandpool.files.files import Files
from sandpool.machines.life import Life
from sandpool.transport.calls import Calls


class Machines(Life, Execs):
    """The machines of a server; a machine is given as its name, its id, or a `Machine`. For use from any thread.

    Attributes:
        files: calls about their files.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.files = Files(calls)
