"""Error replies."""

from __future__ import annotations

import json
import os
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

MESSAGE_MAX = 8 * 1024
TRACEBACK_MAX = 32 * 1024
OWN_FILES = os.path.join(os.path.dirname(__file__), "")


def error_line(identity: Any, kind: str, error: BaseException) -> bytes:
    """An error reply. Memory may be short, so it has a form that needs almost none."""
    try:
        return b'{"id":%s,"error":%s}\n' % (json.dumps(identity).encode(), error_text(kind, error).encode())
    except MemoryError:
        head = b'{"id":%d' % identity if type(identity) is int else b'{"id":null'
        return head + b',"error":{"kind":"oom","type":"MemoryError","message":"out of memory","traceback":null}}\n'


def kind_of(error: BaseException) -> str:
    return "oom" if isinstance(error, MemoryError) else getattr(error, "sandpool_kind", "exception")


def error_text(kind: str, error: BaseException) -> str:
    """The members of an error as JSON."""
    cls = type(error)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(OWN_FILES):
        trace = trace.tb_next
    known = {
        "kind": kind,
        "type": cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}",
        "message": text_of(error)[:MESSAGE_MAX],
        "traceback": without_surrogates("".join(traceback.format_exception(cls, error, trace)))[-TRACEBACK_MAX:],
    }
    return json.dumps(known)


def text_of(error: BaseException) -> str:
    try:
        return without_surrogates(str(error))
    except Exception as second:
        return f"(its text cannot be shown: {type(second).__name__})"


def without_surrogates(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def refuse_fork(identity: Any, blockers: list[dict[str, Any]]) -> bytes:
    known = {
        "kind": "fork_unsupported",
        "type": "RuntimeError",
        "message": f"this process cannot fork: {json.dumps(blockers)}; start no thread and no child program before serve()",
        "traceback": None,
        "blockers": blockers,
    }
    return json.dumps({"id": identity, "error": known}).encode() + b"\n"


def refuse_copy(identity: Any, blockers: list[dict[str, Any]]) -> bytes:
    """The answer of a live environment that a fork would not copy whole; it goes on."""
    told = [{name: _without_surrogates_inside(value) for name, value in blocker.items()} for blocker in blockers]
    known = {
        "kind": "fork_unsupported",
        "type": "RuntimeError",
        "message": f"this environment cannot be copied: {json.dumps(told)}; end or close what is named before a copy",
        "traceback": None,
        "blockers": told,
    }
    return json.dumps({"id": identity, "error": known}).encode() + b"\n"


def _without_surrogates_inside(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_surrogates_inside(item) for item in value]
    return without_surrogates(value) if isinstance(value, str) else value
