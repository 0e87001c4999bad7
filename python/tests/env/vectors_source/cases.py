"""The requests that replies answer, and the two kinds of reply."""

from __future__ import annotations

import base64
from typing import Any

STEP = {"id": 3, "op": "step", "action": 1}
RESET = {"id": 2, "op": "reset", "seed": 42, "options": None}
CALL = {"id": 4, "op": "call", "name": "render", "args": [], "kwargs": {}}
HELLO = {"id": 1, "op": "hello", "protocol": 1, "index": 0, "n": 1, "rows": 1, "workspace": "/workspace", "config": None}


def legal(name: str, request: Any, reply: str, raw: str | None = None, **expect: Any) -> dict[str, Any]:
    case = {"name": name, "request": request, "reply": reply, "kind": "legal", "expect": expect}
    return case if raw is None else {**case, "raw": raw}


def illegal(name: str, request: Any, reply: str | bytes, raw: str | None = None) -> dict[str, Any]:
    said = {"reply_base64": base64.b64encode(reply).decode()} if isinstance(reply, bytes) else {"reply": reply}
    case = {"name": name, "request": request, **said, "kind": "illegal", "expect": {"kind": "protocol"}}
    return case if raw is None else {**case, "raw": raw}


def ended(name: str, obs: Any, reply: str, raw: str | None = None, **changed: Any) -> dict[str, Any]:
    row = {"obs": obs, "reward": 1.0, "terminated": False, "truncated": False, "info": {}, **changed}
    return legal(name, STEP, reply, raw, **row)
