"""Methods and attributes of the environments, with VecEnv's results and exceptions."""

from __future__ import annotations

from typing import Any

from sandpool.errors import RowsFailedError
from sandpool.pool.frames import Frames
from sandpool.pool.report import Reporter
from sandpool.pool.requests import encode_arguments, encode_values
from sandpool.pool.result import CallResult
from sandpool.pool.rlpool import RLPool
from sandpool.pool.selection import select_rows
from sandpool.sb3.options import check_open

# SB3's own statistics wrapper, and ours that stands for it inside a sandbox without SB3.
_STAND_INS = {"stable_baselines3.common.monitor.Monitor": "sandpool_monitor.Monitor"}


class RowsAttributeError(RowsFailedError, AttributeError):
    """An attribute that environments do not have."""


def call_method(pool: RLPool, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], rows: list[int]) -> list[Any]:
    """Call a method of each of these rows, at the same time; one result for each, in their order.

    Raises:
        RowsAttributeError: an environment without such a method.
        RowsFailedError: one that raised, or failed.
    """
    return _call(pool, "call", name, rows, encode_arguments(args, kwargs))


def render_frames(pool: RLPool, frames: Frames) -> list[Any]:
    """Return what each environment renders; a failed one's frame is black. Raises as `call_method` does, for one that raised."""
    check_open(pool)
    result = pool.batches.call("call", "render", select_rows(None, pool.n), None, encode_arguments((), {}))
    if any(error.get("op") == "call" for error in result.errors.values()):
        _raise(result)
    return frames.complete(result, result.errors)


def get_attribute(pool: RLPool, name: str, rows: list[int]) -> list[Any]:
    """Return an attribute of each of these rows; raises as `call_method` does."""
    return _call(pool, "get", name, rows, {})


def has_attribute(pool: RLPool, name: str) -> bool:
    """Whether every environment has the attribute."""
    return all(_call(pool, "has", name, list(range(pool.n)), {}))


def set_attribute(pool: RLPool, name: str, value: Any, rows: list[int]) -> None:
    """Set an attribute of each of these rows to the same value, a list or tuple too; raises as `call_method` does."""
    values = [value] * len(rows) if isinstance(value, (list, tuple)) else value
    _call(pool, "set", name, rows, encode_values(values, select_rows(rows, pool.n)))


def is_wrapped(pool: RLPool, wrapper: type[Any], rows: list[int]) -> list[bool]:
    """Whether each of these rows is wrapped by the class, which is known by its path. SB3's Monitor may be ours, which does the same."""
    path = f"{wrapper.__module__}.{wrapper.__qualname__}"
    wrapped = [bool(result) for result in _call(pool, "wrapped", path, rows, {})]
    if path not in _STAND_INS or all(wrapped):
        return wrapped
    stand_ins = _call(pool, "wrapped", _STAND_INS[path], rows, {})
    return [bool(either) or bool(other) for either, other in zip(wrapped, stand_ins, strict=True)]


def _call(pool: RLPool, call: str, name: str, rows: list[int], free: dict[str, bytes]) -> list[Any]:
    check_open(pool)
    result = pool.batches.call(call, name, select_rows(rows, pool.n), None, free)
    if result.errors:
        _raise(result)
    return [result[row] for row in rows]


def _raise(result: CallResult) -> None:
    try:
        Reporter(raises=True).report(result.errors, result)
    except RowsFailedError as failed:
        if all(error.get("type") == "AttributeError" for error in result.errors.values()):
            raise RowsAttributeError(failed.message, errors=failed.errors, result=result) from None
        raise
