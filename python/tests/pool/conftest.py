from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batches
from replay_server import Answer, ReplayServer, Request, chunked, http, http_json
from sandpool import RLPool
from sandpool.wire.message import CONTENT_TYPE

ARRAY = {"kind": "array", "fields": [{"dtype": "<f4", "shape": [2]}], "tree": {"field": 0}}
LIST = {"kind": "list"}


def batch(*args: Any, **kwargs: Any) -> bytes:
    return http(200, batches.reply(*args, **kwargs), CONTENT_TYPE)


def sequence_of(body: bytes) -> int:
    """The batch number of a request in either encoding."""
    if body.startswith(b"{"):
        return json.loads(body)["seq"]
    return batches.msgpack.unpackb(body[4 : 4 + int.from_bytes(body[:4], "little")])["seq"]


class Replayed:
    """A pool made against a replaying server."""

    def __init__(self, server: ReplayServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.pools: list[RLPool] = []

    def make(self, layout: dict, first: Any, n: int = 3, described: dict | None = None, **options: Any) -> RLPool:
        lines = [
            {"event": "accepted", "id": "op1"},
            {"event": "heartbeat"},
            {"event": "progress", "phase": "start", "done": 1, "total": n},
            {"event": "pool", "pool": batches.description(n, layout, **(described or {}))},
        ]
        text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        self.server.answer("POST /v1/pools", chunked([text[:30], text[30:95], text[95:]]))
        self.server.answer("GET /v1/pools/p1/observations", batch(None, first))
        self.server.answer("DELETE /v1/pools/p1", http_json(200, {"id": "p1", "closed": True}))
        pool = RLPool(self.folder, n, progress=False, **options)
        self.pools.append(pool)
        return pool

    def array_pool(self, n: int = 3, **options: Any) -> RLPool:
        return self.make(ARRAY, np.arange(2 * n, dtype="<f4").reshape(n, 2), n, **options)

    def on_step(self, *answers: Answer) -> None:
        self.server.answer("POST /v1/pools/p1/step", *answers)

    def on_reset(self, *answers: Answer) -> None:
        self.server.answer("POST /v1/pools/p1/reset", *answers)

    def on_call(self, *answers: Answer) -> None:
        self.server.answer("POST /v1/pools/p1/call", *answers)

    def sequences(self, operation: str = "step") -> list[int]:
        return [sequence_of(request.body) for request in self.server.of(f"POST /v1/pools/p1/{operation}")]


@pytest.fixture
def replayed(replay: ReplayServer, tmp_path: Path) -> Iterator[Replayed]:
    folder = tmp_path / "walk"
    folder.mkdir()
    (folder / "env.py").write_text("print()\n")

    def archives(request: Request) -> bytes:
        if request.method == "HEAD":
            return b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n"
        return http_json(201, {})

    replay.fallback = archives
    made = Replayed(replay, folder)
    yield made
    for pool in made.pools:
        pool.close()
