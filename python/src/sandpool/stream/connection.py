"""Carries a session over one WebSocket after another: opens, resumes, sends what waits, and takes in what comes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from sandpool.errors import PoolBusyError, ReplyError, SandpoolError, ServerTimeoutError, error_from_reply
from sandpool.pool.endpoint import Target
from sandpool.stream.connect import RETRIED, explain_closing, explain_giving_up, open_stream
from sandpool.stream.pack import Outgoing
from sandpool.stream.results import Part
from sandpool.stream.session import Session
from sandpool.values.decode import decode_json

_PAUSES_S = (0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0)
_STEADY_S = 10.0


class Receiver:
    """Where a stream's results go; by default all wait in the session for a `take`. Called under the session's lock."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def deliver(self, part: Part) -> None:
        """Take the rows of one message."""
        self.session.add_ready(part)

    def refuse(self, rows: Sequence[int], error: SandpoolError) -> None:
        """Take the refusal of a message; its rows are out no longer."""
        self.session.add_refusal(error)

    def fail(self, error: SandpoolError, *, forget: bool) -> None:
        """Take the end of the stream; with `forget` nothing is out any longer."""
        self.session.fail(error, forget=forget)


class Stream:
    """The connection of a session; it lives in one event loop, and all its methods are called there."""

    def __init__(self, target: Target, session: Session, receiver: Receiver, silence_s: float) -> None:
        self._silence_s = silence_s
        self._watchdog: asyncio.TimerHandle | None = None
        self._target = target
        self._session = session
        self._receiver = receiver
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self._last_words: object = None

    def wake(self) -> None:
        """Send what waits, over a new connection if there is none; what was put in one turn of the loop goes together."""
        self._wake.set()
        if self._watchdog is None:
            self._session.last_sign = time.monotonic()
            self._watch(self._silence_s)
        if self._task is None or self._task.done():
            self._failures = 0
            self._task = asyncio.get_running_loop().create_task(self._run(), name=f"sandpool-stream-{self._target.pool_id}")
            self._task.add_done_callback(self._notice_fault)

    async def close(self) -> None:
        """Close the connection; what is out stays with the pool."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        """Go on until a connection breaks while nothing is under way, or the stream has failed."""
        while True:
            try:
                await self._carry()
            except SandpoolError as error:
                if not self._begin_anew(error):
                    self._receiver.fail(error, forget=True)
                    return
            except RETRIED as error:
                if not self._session.is_busy:
                    return
                if self._failures == len(_PAUSES_S):
                    self._receiver.fail(explain_giving_up(self._target.endpoint.address, error, self._failures), forget=False)
                    return
                await asyncio.sleep(_PAUSES_S[self._failures])
                self._failures += 1

    async def _carry(self) -> None:
        """Open one connection and use it to its end, which is always an exception."""
        loop = asyncio.get_running_loop()
        self._last_words = None
        opened_at = loop.time()
        try:
            async with await open_stream(self._target, self._session.name, self._session.received) as connection:
                unsent = self._session.resume(*await self._read_opening(connection))
                writer = loop.create_task(self._write(connection, unsent))
                writer.add_done_callback(
                    lambda task: None if task.cancelled() or task.exception() is None else connection.transport.abort()
                )
                try:
                    while True:
                        self._take(await connection.recv())
                finally:
                    writer.cancel()
                    await asyncio.wait([writer])
                    if not writer.cancelled():
                        writer.result()
        except ConnectionClosed as closed:
            if loop.time() - opened_at > _STEADY_S:
                self._failures = 0
            explained = explain_closing(closed, self._last_words)
            if explained is not None:
                raise explained from closed
            raise

    async def _write(self, connection: ClientConnection, unsent: list[Outgoing]) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                for message in unsent:
                    await connection.send(message.data, text=message.text)
                if not self._session.has_waiting:
                    self._wake.clear()
                    await self._wake.wait()
                unsent = self._session.pack()

    def _take(self, data: bytes | str) -> None:
        if isinstance(data, str):
            self._take_event(data)
            return
        with self._session.lock:
            part = self._session.feed(data)
            if part is not None:
                self._failures = 0
                self._receiver.deliver(part)

    def _take_event(self, text: str) -> None:
        event = _event_of(text)
        kind = event.get("event")
        if kind == "error":
            self._last_words = event
        elif kind == "refused" and isinstance(event.get("number"), int):
            with self._session.lock:
                rows = self._session.refuse(event["number"])
                self._failures = 0
                self._wake.set()
                if rows:
                    self._receiver.refuse(rows, error_from_reply(400, event))
        else:
            raise ReplyError(f"The stream sent {text!r:.200}; expected a result, a refusal or an error.")

    async def _read_opening(self, connection: ClientConnection) -> tuple[int, int]:
        """Return `accepted` and `next_result`; a server that refuses says why and closes, which ends the second wait."""
        while True:
            data = await connection.recv()
            event = _event_of(data)
            kind = event.get("event")
            if kind == "open" and type(event["accepted"]) is int and type(event["next_result"]) is int:
                return event["accepted"], event["next_result"]
            if kind != "error":
                raise ReplyError(f"The stream opened with {data!r:.200}; expected the event open.")
            self._last_words = event

    def _begin_anew(self, error: SandpoolError) -> bool:
        """Whether another session took the place of ours while nothing of ours was out: then a new one of ours may take its."""
        if not isinstance(error, PoolBusyError) or not self._session.is_settled or self._session.is_new:
            return False
        self._session.renew()
        return True

    def _watch(self, pause_s: float) -> None:
        self._watchdog = asyncio.get_running_loop().call_later(pause_s, self._notice_silence)

    def _notice_silence(self) -> None:
        silent_s = time.monotonic() - self._session.last_sign
        self._watchdog = None
        if self._session.is_busy and silent_s < self._silence_s:
            self._watch(self._silence_s - silent_s)
        elif self._session.is_busy:
            error = ServerTimeoutError(
                f"The pool {self._target.pool_id} said nothing for {silent_s:.0f} s, longer than its deadlines can add up to.",
                hint="Is the server's machine overloaded or stopped? What is out is not lost: recv() again.",
            )
            self._receiver.fail(error, forget=False)

    def _notice_fault(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._receiver.fail(ReplyError(f"The stream of the pool {self._target.pool_id} broke down: {error!r}."), forget=True)


def _event_of(data: bytes | str) -> dict[str, Any]:
    event = decode_json(data) if isinstance(data, str) else None
    return event if isinstance(event, dict) else {}
