"""What the client itself spends on one step, without a network: the reply is already here.

Usage: python bench/client_overhead.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from batches import description, reply
from sandpool.pool.actions import read_actions
from sandpool.pool.observations import make_observations
from sandpool.pool.replies import column_of, infos_of
from sandpool.pool.requests import step_request
from sandpool.pool.selection import select_rows
from sandpool.wire.message import MessageReader

_REPEATS = 2_000
_CASES = [(1, (4,), "<f4"), (8, (4,), "<f4"), (1000, (4,), "<f4"), (64, (84, 84, 4), "|u1")]


def main() -> None:
    """Print microseconds for the request and for the reply of several pools."""
    for n, shape, dtype in _CASES:
        layout = {"kind": "array", "fields": [{"dtype": dtype, "shape": list(shape)}], "tree": {"field": 0}}
        observations = make_observations(description(n, layout)["layout"], n)
        data = reply(1, np.zeros((n, *shape), dtype), [0.0] * n)
        reader = MessageReader()
        actions = np.zeros(n, np.int64)
        space = {"type": "Discrete", "n": 2, "start": 0, "dtype": "<i8"}

        started = time.perf_counter()
        for _ in range(_REPEATS):
            selection = select_rows(None, n)
            _, encode = step_request(read_actions(actions, selection, n, space), selection)
            encode(1)
        request_us = (time.perf_counter() - started) / _REPEATS * 1e6

        started = time.perf_counter()
        for _ in range(_REPEATS):
            message = reader.read(np.frombuffer(bytearray(data), np.uint8))
            infos_of(message, n)
            observations.merge(message.fields, None, [])
            for name, kind in (("rewards", np.float64), ("terminated", np.bool_), ("truncated", np.bool_)):
                column_of(message, name, kind, None, n)
        reply_us = (time.perf_counter() - started) / _REPEATS * 1e6
        print(f"{n} x {shape} {dtype}: request {request_us:.1f} us, reply {reply_us:.1f} us (includes a copy of the message)")


if __name__ == "__main__":
    main()
