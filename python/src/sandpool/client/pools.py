"""The pools of a server; `sandpool.RLPool` makes them and `RLPool.attach` uses one."""

from __future__ import annotations

from typing import Any

from sandpool.errors import ReplyError
from sandpool.transport.calls import Calls


class Pools:
    """Calls about pools that need no pool object."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def list(self) -> Any:
        """Return the descriptions of your pools, one dict each."""
        reply = self._calls.json("GET", ("pools",))
        if not isinstance(reply, dict) or not isinstance(reply.get("pools"), tuple | list):
            raise ReplyError(f"The server answered with {reply!r:.100}; expected a list of pools.")
        return reply["pools"]
