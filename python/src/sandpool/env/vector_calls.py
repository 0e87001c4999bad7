"""Calls and attributes of a vectorised environment: its own, once, for all rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sandpool.env.attributes import call_by_name, get_attribute, has_attribute, is_wrapped, set_attribute
from sandpool.env.call_rows import values_of
from sandpool.env.decoding import decode
from sandpool.env.encoding import encode
from sandpool.env.lines import name_of
from sandpool.env.measure import measure_vector

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sandpool.env.vector import VectorRows


def call_vector(owner: VectorRows, operation: str, rows: Any, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
    """One result a row where the environment gives a tuple or list of them, else the same for all."""
    count = len(owner.all)
    if rows is not owner.all:
        raise ValueError(f"{operation} for {len(rows)} of {count} rows of one {owner.name}; a vectorised environment is asked whole")
    if owner.environment is None:
        raise RuntimeError("the environment failed and was not reset since; reset it before a call")
    if operation == "measure":
        return (json.dumps({"id": identity, **measure_vector(owner)}) + "\n").encode()
    result = _ASK[operation](owner, name_of(request), request, raw)
    if operation in ("call", "get") and isinstance(result, (tuple, list)) and len(result) == count:
        texts = [encode(one, owner.output) for one in result]
    else:
        texts = [encode(result, owner.output)] * count
    return owner.output.finish(f'{{"id":{json.dumps(identity)},"results":[{",".join(texts)}]')


def _call(owner: VectorRows, name: str, request: dict[str, Any], raw: bytes) -> Any:
    args, kwargs = decode(request.get("args") or [], raw), decode(request.get("kwargs") or {}, raw)
    environment = owner.environment
    if not has_attribute(environment, name) and callable(getattr(environment, "call", None)) and name not in ("reset", "step", "close"):
        return environment.call(name, *args, **kwargs)  # SyncVectorEnv's, for what only its environments have
    return call_by_name(environment, name, args, kwargs)


def _get(owner: VectorRows, name: str, request: dict[str, Any], raw: bytes) -> Any:
    environment = owner.environment
    if not has_attribute(environment, name) and callable(getattr(environment, "get_attr", None)):
        return environment.get_attr(name)
    return get_attribute(environment, name)


def _set(owner: VectorRows, name: str, request: dict[str, Any], raw: bytes) -> None:
    values = values_of(request, raw, len(owner.all))
    environment = owner.environment
    if not has_attribute(environment, name) and callable(getattr(environment, "set_attr", None)):
        environment.set_attr(name, values)
    elif "value" in request:
        set_attribute(environment, name, values[0])
    else:
        raise ValueError(f"set of {name!r} came with a value for each row; {owner.name} has one for all of them")


_ASK: dict[str, Callable[[VectorRows, str, dict[str, Any], bytes], Any]] = {
    "call": _call,
    "get": _get,
    "set": _set,
    "has": lambda owner, name, request, raw: has_attribute(owner.environment, name),
    "wrapped": lambda owner, name, request, raw: is_wrapped(owner.environment, name),
}
CALLS = frozenset((*_ASK, "measure"))
