"""One environment of a pool, checked out by one coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sandpool.aio.hub import Hub
from sandpool.errors import InvalidValueError, RequestRefusedError, RowsFailedError, SandpoolError
from sandpool.pool.requests import encode_arguments
from sandpool.pool.result import CallResult
from sandpool.pool.rlpool import RLPool
from sandpool.pool.selection import select_rows
from sandpool.stream.entries import Entry, make_resets, make_steps
from sandpool.stream.results import Part

_Place = tuple[Part, int]
RunBatch = Callable[[Callable[[RLPool], CallResult]], Awaitable[CallResult]]


class AsyncEnv:
    """One row of a pool while ``async with pool.env() as e`` lasts.

    Attributes:
        index: the row.
        info: info of the last reset or step; a failed row's has ``"sandpool_error"``.
        has_left: whether its block has ended.
    """

    def __init__(self, hub: Hub, index: int, run_batch: RunBatch) -> None:
        self.index = index
        self.info: dict[str, Any] = {}
        self._hub = hub
        self._run_batch = run_batch
        self._was_reset = False
        self.has_left = False
        self._awaited: asyncio.Future[_Place] | None = None
        self._back = asyncio.Event()
        self._back.set()

    async def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, hard: bool = False) -> Any:
        """Reset the environment and return its observation; the info is in `info`.

        A row that was lost is reset hard, so that it serves the next coroutine again. A reset that fails returns the row's last good
        observation (None in a list pool) and says why in ``info["sandpool_error"]``, or raises RowsFailedError with ``errors="raise"``.
        """
        await self.come_back()
        hard = hard or self.index in self._hub.lost
        seeds = None if seed is None else [seed]
        part, place = await self._exchange(make_resets(seeds, options, hard, [self.index], self._hub.pool.n))
        self._hub.pool.reset_infos[self.index] = self.info
        return self._hub.tell(self.index, part, self._observation(part, place))

    async def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the environment and return observation, reward, terminated, truncated, info.

        A row that failed ends its episode: terminated if the environment raised, else truncated, with ``info["sandpool_error"]``.

        Raises:
            InvalidValueError: it was not reset yet, or the await of its last reset or step was cancelled.
            RequestRefusedError: the pool refused the action; nothing was sent to the environment.
            RowsFailedError: it failed, only with ``errors="raise"``; `result` is what would have been returned.
        """
        if not self._was_reset:
            raise InvalidValueError(
                f"step() of row {self.index} was called before a reset() that came to its end; expected a reset first.",
                hint="A checked-out row may be in the middle of another coroutine's episode, or of one that was cancelled.",
            )
        part, place = await self._exchange(make_steps([action], [self.index], self._hub.pool.n, self._hub.pool.action_space))
        flags = bool(part.terminated[place]), bool(part.truncated[place])
        result = (self._observation(part, place), float(part.rewards[place]), *flags, self.info)
        return self._hub.tell(self.index, part, result)  # type: ignore[no-any-return]

    async def call(self, name: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, timeout: float | None = None) -> Any:
        """Call a method of the environment and return its result.

        A call is a batch of the whole pool: it waits until every row that is out is back, and holds back what is sent meanwhile.

        Raises:
            RowsFailedError: the call failed.
        """
        self._check_held()
        free = encode_arguments(args, kwargs)
        # A failure is raised here, so nobody needs to be warned of it.
        async with self._hub.turns.between_sends():
            result = await self._run_batch(lambda pool: pool.batches.call("call", name, select_rows([self.index], pool.n), timeout, free))
        if self.index in result.errors:
            message = f"call {name!r} of row {self.index} failed: {result.errors[self.index].get('message')}"
            raise RowsFailedError(message, errors=result.errors, result=result)
        return result[self.index]

    async def come_back(self) -> None:
        """Wait for what a cancelled await left out; it belongs to nobody. Raises what keeps it out, when the server is out of reach."""
        while not self._back.is_set():
            if self._awaited is None or self._awaited.done():
                self._awaited = asyncio.get_running_loop().create_future()
            awaited = self._awaited
            self._hub.wake()
            try:
                await asyncio.wait([awaited])
            except asyncio.CancelledError:
                awaited.cancel()
                raise
            error = None if awaited.cancelled() else awaited.exception()
            if error is not None and not self._back.is_set():
                raise error

    def leave(self) -> None:
        """Give the row back, at once or when what is out has come."""
        self.has_left = True
        if self._back.is_set():
            self._hub.owners.give_back(self.index)

    def accept(self, part: Part, place: int) -> None:
        """Take the row's result; one that nobody awaits any longer is dropped."""
        awaited, self._awaited = self._awaited, None
        self._come_back()
        if awaited is not None and not awaited.done():
            awaited.set_result((part, place))

    def reject(self, error: SandpoolError, *, is_back: bool) -> None:
        """Take an error instead; the row comes back later unless `is_back`."""
        awaited, self._awaited = self._awaited, None
        if is_back:
            self._come_back()
        if awaited is not None and not awaited.done():
            awaited.set_exception(error)

    async def _exchange(self, entry: Entry) -> _Place:
        self._check_held()
        await self._hub.put(entry)
        was_reset, self._was_reset = self._was_reset, False
        self._back.clear()
        self._awaited = asyncio.get_running_loop().create_future()
        try:
            part, place = await self._awaited
        except RequestRefusedError:
            # Nothing was sent to the environment: its episode is where it was.
            self._was_reset = was_reset
            raise
        self._was_reset = True
        self.info = part.infos.get(self.index, {})
        return part, place

    def _observation(self, part: Part, place: int) -> Any:
        return self._hub.session.observations.at(part.obs, place)

    def _come_back(self) -> None:
        if not self._back.is_set():
            self._back.set()
            if self.has_left:
                self._hub.owners.give_back(self.index)

    def _check_held(self) -> None:
        if self.has_left:
            raise InvalidValueError(
                f"Row {self.index} was used after its block had ended; expected a row that is checked out.",
                hint="Use it inside `async with pool.env() as e:`.",
            )
