"""What an asyncio pool tells of itself, without asking the server."""

from __future__ import annotations

from typing import Any

from sandpool.aio.handle import AsyncPoolHandle, closed_by_us
from sandpool.aio.hub import Hub
from sandpool.pool.result import RowErrors
from sandpool.pool.timing import Timing


class Described(AsyncPoolHandle):
    """The attributes of `RLPool`."""

    @property
    def id(self) -> str:
        """The pool's id."""
        return self._opened.pool.id

    @property
    def n(self) -> int:
        """Its rows."""
        return self._opened.pool.n

    @property
    def name(self) -> str | None:
        """Its name, or None."""
        return self._opened.pool.name

    @property
    def description(self) -> dict[str, Any]:
        """What the server said of it when it was made or attached to."""
        return self._opened.pool.description

    @property
    def observation_space(self) -> dict[str, Any] | None:
        """The announced observation space of one environment; see `RLPool.observation_space`."""
        return self._opened.pool.observation_space

    @property
    def action_space(self) -> dict[str, Any] | None:
        """The announced action space of one environment, or None."""
        return self._opened.pool.action_space

    @property
    def initial_obs(self) -> Any:
        """The observations of the first reset, made at creation."""
        return self._opened.pool.initial_obs

    @property
    def reset_infos(self) -> list[dict[str, Any]]:
        """The info of each row's last reset, n dicts."""
        return self._opened.pool.reset_infos

    @property
    def reseeded(self) -> dict[int, list[str]]:
        """By row what the last fork or restore reseeded; see `RLPool.reseeded`."""
        return self._opened.pool.reseeded

    @property
    def errors(self) -> RowErrors:
        """The errors of the rows that failed in the last batch or `recv`, by row."""
        return self._opened.pool.errors

    @property
    def timing(self) -> Timing:
        """How long batches and rows took."""
        return self._opened.pool.timing

    @property
    def closed(self) -> bool:
        """Whether this object was closed or detached, or never opened."""
        return self._hub is None or self._closing is not None or self._hub.pool.closed

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return "<AsyncRLPool, not opened>" if self._hub is None else f"<Async{repr(self._hub.pool)[1:]}"

    def _checked(self) -> Hub:
        hub = self._opened
        if self.closed:
            raise closed_by_us(hub.pool)
        return hub
