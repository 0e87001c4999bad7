from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batches
from replay_server import ReplayServer, chunked, http, http_json
from sandpool import RLPool
from sandpool.wire.message import CONTENT_TYPE
from scripted_stream import ScriptedStream

ARRAY = {"kind": "array", "fields": [{"dtype": "<f4", "shape": [2]}], "tree": {"field": 0}}
N = 4

MakePool = Callable[..., RLPool]


@pytest.fixture
def scripted() -> Iterator[ScriptedStream]:
    server = ScriptedStream(N)
    yield server
    server.close()


@pytest.fixture
def make_pool(replay: ReplayServer, scripted: ScriptedStream, tmp_path: Path) -> Iterator[MakePool]:
    """Makes a pool whose creation a replaying server answers and whose stream is the scripted one."""
    (tmp_path / "env.py").write_text("print()\n")
    pools: list[RLPool] = []

    def make(layout: dict[str, Any] = ARRAY, first: Any = None, **options: Any) -> RLPool:
        endpoint = {"url": scripted.url, "token": "key-of-the-stream"}
        pool = {"event": "pool", "pool": batches.description(N, layout, endpoint=endpoint)}
        replay.answer("POST /v1/pools", chunked([json.dumps(pool).encode() + b"\n"]))
        replay.fallback = lambda request: b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n" if request.method == "HEAD" else http_json(200, {})
        first = np.zeros((N, 2), "<f4") if first is None else first
        replay.answer("GET /v1/pools/p1/observations", http(200, batches.reply(None, first), CONTENT_TYPE))
        pools.append(RLPool(tmp_path, N, progress=False, **options))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("sandpool-stream")] == []


@pytest.fixture
def pool(make_pool: MakePool) -> RLPool:
    return make_pool()
