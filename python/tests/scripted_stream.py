"""A pool's stream by docs/internals/stream.md, written apart from the client's code: its rows finish when a test says so."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgpack
import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

import batches


class ScriptedStream:
    """Each row counts its steps: observation [row, steps], reward the action.

    Attributes:
        executed: what was accepted, in order, as (operation, row, action or options).
        accepted: number of the last message that was taken.
        seeds: what each reset message had as its seed.
        dies: called with each message before it is accepted; True breaks the connection instead.
    """

    def __init__(self, n: int) -> None:
        self.executed: list[tuple[str, int, Any]] = []
        self.messages: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.accepted = 0
        self.sessions: list[str] = []
        self.dies: Callable[[dict[str, Any]], bool] = lambda _: False
        self.refuses_message: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda _: None
        self.handshake: Callable[[ServerConnection, Request], Response | None] = lambda *_: None
        self.opening: Callable[[ServerConnection], bool] = lambda _: True
        self.automatic = False
        self.failing: dict[int, dict[str, Any]] = {}
        self.steps = dict.fromkeys(range(n), 0)
        self._out: dict[int, tuple[str, Any]] = {}
        self._results: list[bytes] = []
        self._connection: ServerConnection | None = None
        self._changed = threading.Condition()
        self._server = serve(
            self._serve,
            "127.0.0.1",
            0,
            subprotocols=["sandpool.batch"],  # type: ignore[list-item]
            process_request=self._process_request,
            compression=None,
            max_size=1 << 20,
            logger=logging.getLogger("scripted"),
        )
        self.url = f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def finish(self, *rows: int, obs: Any = None) -> None:
        """Bring the results of rows, in one message; waits until they are out."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._out.keys() >= set(rows), 20), f"{rows} are not out, only {set(self._out)}"
            self._finish(rows, obs)

    def wait_until_out(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._out) == count, 20), f"{len(self._out)} are out"

    def cut(self) -> None:
        """Break the connection as a network does."""
        with self._changed:
            if self._connection is not None:
                with contextlib.suppress(OSError):
                    self._connection.socket.shutdown(socket.SHUT_RDWR)

    def end(self, code: int, error: dict[str, Any]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._connection is not None, 20)
            assert self._connection is not None
            close_with(self._connection, code, error)

    def forget(self) -> None:
        """Let another session have had the stream."""
        self.accepted, self.sessions, self._results = 0, ["another"], []

    def close(self) -> None:
        self._server.shutdown()
        self.cut()
        self._thread.join(10)

    def _process_request(self, connection: ServerConnection, request: Request) -> Response | None:
        self.paths.append(request.path)
        if request.headers.get("Authorization") != "Bearer key-of-the-stream":
            return connection.respond(401, '{"error":{"code":"unauthorized","message":"wrong key"}}')
        return self.handshake(connection, request)

    def _serve(self, connection: ServerConnection) -> None:
        try:
            if self.opening(connection):
                self._open(connection)
                for data in connection:
                    self._take(connection, data)
        except (ConnectionClosed, OSError):
            return

    def _open(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        query = parse_qs(urlsplit(connection.request.path).query)
        session, received = query["session"][0], int(query["received"][0])
        with self._changed:
            if received and session != self.sessions[-1]:
                close_with(connection, 4409, {"code": "pool_busy", "message": "another session"})
                return
            if not self.sessions or session != self.sessions[-1]:
                self.sessions.append(session)
                self.accepted, self._results = 0, []
            connection.send(json.dumps({"event": "open", "accepted": self.accepted, "next_result": received + 1}))
            for result in self._results[received:]:
                connection.send(result)
            self._connection = connection
            self._changed.notify_all()

    def _take(self, connection: ServerConnection, data: str | bytes) -> None:
        message = decode(data)
        with self._changed:
            if message["number"] <= self.accepted:
                return
            if self.dies(message):
                connection.socket.shutdown(socket.SHUT_RDWR)
                return
            assert message["number"] == self.accepted + 1
            self.accepted += 1
            refusal = self.refuses_message(message)
            if refusal is not None:
                connection.send(json.dumps({"event": "refused", "number": message["number"], "error": refusal}))
                return
            assert not self._out.keys() & set(message["where"]), "a row was sent twice"
            self.messages.append(message)
            options = message.get("options")
            given = (
                message["actions"]
                if message["op"] == "step"
                else options
                if isinstance(options, list)
                else [options] * len(message["where"])
            )
            for row, item in zip(message["where"], given, strict=True):
                self._out[row] = (message["op"], item)
                self.executed.append((message["op"], row, item))
                self.steps[row] = self.steps[row] + 1 if message["op"] == "step" else 0
            if self.automatic:
                self._finish(message["where"], None)
            self._changed.notify_all()

    def _finish(self, rows: Any, obs: Any) -> None:
        done = [self._out.pop(row) for row in rows]
        failed = [row for row in rows if row in self.failing]
        if obs is None:
            obs = np.array([[0, 0] if row in failed else [row, self.steps[row]] for row in rows], "<f4")
        infos = {str(row): {"sandpool_error": self.failing[row]} for row in failed}
        rewards = np.array(
            [
                item if operation == "step" and row not in failed and isinstance(item, int) else 0
                for row, (operation, item) in zip(rows, done, strict=True)
            ],
            "<f8",
        )
        fields = [batches.array_field("obs", obs, field=0)] if isinstance(obs, np.ndarray) else [batches.json_field("obs", obs)]
        fields += [batches.array_field("rewards", rewards), batches.array_field("terminated", rewards == 7)]
        fields += [batches.array_field("truncated", np.isin(rows, failed)), batches.json_field("infos", infos)]
        members = {
            "number": len(self._results) + 1,
            "where": list(rows),
            "ops": [operation for operation, _ in done],
            "rows": len(rows),
            "failed": failed,
            "timing": {"worker_ms": 1.5, "slowest_ms": 0.5, "slowest_row": rows[0], "stragglers": failed},
        }
        self._results.append(batches.message(members, fields))
        if self._connection is not None:
            try:
                self._connection.send(self._results[-1])
            except (ConnectionClosed, OSError):
                return


def close_with(connection: ServerConnection, code: int, error: dict[str, Any]) -> None:
    connection.send(json.dumps({"event": "error", "error": error}))
    connection.close(code)


def decode(data: str | bytes) -> dict[str, Any]:
    """A client's message, with its actions as a list."""
    if isinstance(data, str):
        return json.loads(data)
    members = msgpack.unpackb(data[4 : 4 + int.from_bytes(data[:4], "little")])
    (field,) = members.pop("fields")
    buffer = data[field["offset"] : field["offset"] + field["length"]]
    return {**members, "actions": np.frombuffer(buffer, field["dtype"]).reshape(field["shape"]).tolist()}
