"""Calls to all environments of a pool, and what one that fails means."""

from __future__ import annotations

from typing import Any

from sandpool.errors import InvalidValueError, RowsFailedError
from sandpool.pool.batches import Batches
from sandpool.pool.report import Reporter, describe_errors
from sandpool.pool.requests import encode_arguments, encode_values
from sandpool.pool.result import CallResult
from sandpool.pool.selection import Selection, select_rows

_REFUSED = ("reset", "step", "close")


class MissingAttributeError(RowsFailedError, AttributeError):
    """No environment has an attribute of that name."""


def call_rows(batches: Batches, reporter: Reporter, name: str, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Call a method of every environment, or read an attribute, in one request; results in the order of the environments.

    Raises:
        InvalidValueError: the method is reset, step or close.
        MissingAttributeError, RowsFailedError: an environment's code raised. An environment that crashed or ran out of time, or that
            failed before and was not reset since, is None and reported as in a step.
    """
    if name in _REFUSED:
        raise InvalidValueError(f"Trying to call function `{name}` with `call`, use `{name}` directly instead.")
    return tuple(_checked(batches.call("call", name, select_rows(None, batches.n), None, encode_arguments(args, kwargs)), reporter))


def set_rows(batches: Batches, reporter: Reporter, name: str, values: Any) -> None:
    """Set an attribute of every environment: a list or tuple has one value for each of them, anything else is for all."""
    everyone = Selection(None, None, batches.n)
    if isinstance(values, (list, tuple)) and len(values) != batches.n:
        raise InvalidValueError(
            "Values must be a list or tuple with length equal to the number of environments. "
            f"Got `{len(values)}` values for {batches.n} environments."
        )
    _checked(batches.call("set", name, everyone, None, encode_values(values, everyone)), reporter)


def _checked(result: CallResult, reporter: Reporter) -> CallResult:
    raised = {row: error for row, error in result.errors.items() if error.get("kind") == "exception" and error.get("op") == "call"}
    if raised:
        missing = all(error.get("type") == "AttributeError" for error in raised.values())
        kind = MissingAttributeError if missing else RowsFailedError
        raise kind(describe_errors(raised), errors=raised, result=result)
    if result.errors:
        reporter.report(result.errors, result)
    return result


def plain_seeds(results: tuple[Any, ...]) -> tuple[int, ...] | None:
    """Return the results as seeds, if that is what they are."""
    seeds = tuple(int(item) for item in results if isinstance(item, int) or hasattr(item, "__index__"))
    return seeds if len(seeds) == len(results) else None
