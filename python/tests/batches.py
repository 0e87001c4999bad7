"""Batch messages written by hand, apart from the client's own encoder, and the descriptions of pools they belong to."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import numpy as np

DISCRETE = {"type": "Discrete", "n": 2, "start": 0, "dtype": "<i8"}


def message(members: dict[str, Any], fields: list[tuple[dict[str, Any], bytes]]) -> bytes:
    """``u32 length | map | padding | buffers``, with every offset 1024 or more, so that the map surely fits before it."""
    placed, buffers, offset = [], b"", 1024
    for field, data in fields:
        buffers += bytes(offset - 1024 - len(buffers)) + data
        placed.append({**field, "offset": offset, "length": len(data)})
        offset += -(-len(data) // 64) * 64
    packed = msgpack.packb({**members, "fields": placed})
    return (len(packed).to_bytes(4, "little") + packed).ljust(1024, b"\0") + buffers


def array_field(name: str, array: np.ndarray, **more: Any) -> tuple[dict[str, Any], bytes]:
    return {"name": name, "dtype": array.dtype.str, "shape": list(array.shape), **more}, array.tobytes()


def json_field(name: str, value: Any) -> tuple[dict[str, Any], bytes]:
    return {"name": name, "json": True}, json.dumps(value).encode()


def reply(
    seq: int | None,
    obs: np.ndarray | list[Any] | list[np.ndarray] | None,
    rewards: list[float] | None = None,
    terminated: list[bool] | None = None,
    truncated: list[bool] | None = None,
    infos: dict[str, Any] | None = None,
    failed: list[int] | None = None,
    results: list[Any] | None = None,
    stragglers: list[int] | None = None,
    **more: Any,
) -> bytes:
    fields = []
    if isinstance(obs, np.ndarray):
        fields.append(array_field("obs", obs, field=0))
    elif obs is not None and obs and isinstance(obs[0], np.ndarray):
        fields += [array_field("obs", array, field=number) for number, array in enumerate(obs)]
    elif obs is not None:
        fields.append(json_field("obs", obs))
    if rewards is not None:
        fields.append(array_field("rewards", np.array(rewards, "<f8")))
        fields.append(array_field("terminated", np.array(terminated or [False] * len(rewards), "|b1")))
        fields.append(array_field("truncated", np.array(truncated or [False] * len(rewards), "|b1")))
    if results is not None:
        fields.append(json_field("results", results))
    fields.append(json_field("infos", infos or {}))
    timing = {"worker_ms": 1.5, "slowest_ms": 0.5, "slowest_row": 0, "stragglers": stragglers or []}
    members = {"rows": 0, "failed": failed or [], "timing": timing, **({} if seq is None else {"seq": seq}), **more}
    return message(members, fields)


def description(n: int, layout: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "p1",
        "name": None,
        "n": n,
        "layout": layout,
        "observation_space": None,
        "action_space": None,
        "metadata": {},
        "limits": {},
        "lease": {"seconds": 600, "expires_at": "2030-01-01T00:00:00Z"},
        "endpoint": {"url": "http://elsewhere.invalid:1"},
        "next_seq": 1,
        **more,
    }
