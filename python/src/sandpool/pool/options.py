"""The options of RLPool, checked before anything is packed or sent."""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import numbers
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from sandpool.errors import InvalidTypeError, InvalidValueError

P = ParamSpec("P")
R = TypeVar("R")

_CHOICES: dict[str, tuple[object, ...]] = {
    "autoreset": (None, "auto", "same_step", "next_step"),
    "seeds": ("derived", "continue"),
    "errors": ("rows", "raise"),
    "start": ("auto", "fork", "spawn"),
    "progress": ("auto", True, False),
    "network": (True, False),
    "first_reset": (True, False),
    "branching": (True, False),
}
_SECONDS = ("step_timeout", "reset_timeout", "start_timeout", "call_timeout", "lease")
_SIZE = re.compile(r"\d+(?:\.\d+)?\s*(?:[KMGT]i?)?B?")
LARGEST_SEED = 2**53 - 1


def refuse_unknown_options(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that a misspelt keyword argument is an InvalidTypeError that names the likely one."""
    parameters = inspect.signature(function).parameters
    known = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in parameters:
                close = difflib.get_close_matches(name, known, n=1)
                raise InvalidTypeError(
                    f"There is no option {name!r}; expected one of {', '.join(known)}.",
                    hint=f"Did you mean {close[0]!r}?" if close else None,
                )
        return function(*args, **kwargs)

    return checked


def check_options(n: object, options: dict[str, Any]) -> None:
    """Check the options of RLPool by themselves; raises the first fault as InvalidTypeError or InvalidValueError."""
    check_count("n", n)
    for name in _CHOICES:
        check_choice(name, options[name])
    for name in _SECONDS:
        check_seconds(name, options[name])
    for name in ("memory", "workspace"):
        _check_size(name, options[name])
    for name in ("isolation", "python", "image"):
        check_name(name, options[name])
    if options["name"] is not None and (not isinstance(options["name"], str) or not options["name"]):
        raise InvalidTypeError(f"name={options['name']!r:.80} was given; expected text or None.")
    if options["shards"] != "auto":
        check_count("shards", options["shards"])
    if options["in_flight"] is not None:
        check_count("in_flight", options["in_flight"])
    check_seed("seed", options["seed"])
    _check_variables(options["env"])
    check_per_row("config", options["config"], int(n))  # type: ignore[call-overload]
    if options["envs_per_process"] != "auto":
        _check_packing(options["envs_per_process"], int(n))  # type: ignore[call-overload]


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with numpy's numbers as Python's, for the wire knows only those."""
    return {name: _plain(value) for name, value in options.items()}


def check_choice(name: str, value: object) -> None:
    """Check an option that has a few values."""
    choices = _CHOICES[name]
    if not any(value is choice or (isinstance(choice, str) and isinstance(value, str) and value == choice) for choice in choices):
        raise InvalidValueError(f"{name}={value!r:.80} was given; expected {' or '.join(map(repr, choices))}.")


def check_name(name: str, value: object) -> None:
    """Check text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InvalidTypeError(f"{name}={value!r:.80} was given; expected text.")


def check_count(name: str, value: object) -> None:
    """Check a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidTypeError(f"{name}={value!r:.80} was given; expected a whole number of at least 1.")
    if int(value) < 1:
        raise InvalidValueError(f"{name}={value} was given; expected at least 1.")


def check_row(value: object, n: int) -> None:
    """Check the index of one row."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidTypeError(f"row={value!r:.80} was given; expected a whole number.")
    if not 0 <= int(value) < n:
        raise InvalidValueError(f"row={value} was given; expected 0..{n - 1}.")


def check_seconds(name: str, value: object) -> None:
    """Check a positive, finite number of seconds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name}={value!r:.80} was given; expected a number of seconds.")
    if not (float(value) > 0 and math.isfinite(value)):
        raise InvalidValueError(f"{name}={value} was given; expected a positive, finite number of seconds.")


def check_seed(name: str, value: object) -> None:
    """Check None or an integer that every JSON reader keeps exact."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidTypeError(f"{name}={value!r:.80} was given; expected None or a whole number.")
    if not 0 <= int(value) <= LARGEST_SEED:
        raise InvalidValueError(f"{name}={value} was given; expected 0..{LARGEST_SEED}.")


def check_per_row(name: str, value: object, n: int) -> None:
    """Check None, one dict for all rows, or a list with a dict or None for each of n rows."""
    if value is None or isinstance(value, dict):
        return
    if not isinstance(value, (list, tuple)):
        raise InvalidTypeError(f"{name} is of type {type(value).__name__}; expected a dict for all rows, or a list of {n} dicts.")
    if len(value) != n:
        raise InvalidValueError(f"{name} is a list of {len(value)}; expected {n}, one for each row of the pool.")
    for row, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            raise InvalidTypeError(f"{name}[{row}] is of type {type(item).__name__}; expected a dict or None.")


def _check_packing(value: object, n: int) -> None:
    check_count("envs_per_process", value)
    if int(value) > n:  # type: ignore[call-overload]
        raise InvalidValueError(
            f"envs_per_process: received {value}; the pool has {n} rows.", hint=f'Pass an integer from 1 to {n}, or "auto".'
        )


def _check_size(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (numbers.Integral, str)):
        raise InvalidTypeError(f"{name}={value!r:.80} was given; expected bytes or text such as '2GiB'.")
    if isinstance(value, numbers.Integral):
        check_count(name, value)
    elif _SIZE.fullmatch(value) is None:
        raise InvalidValueError(f"{name}={value!r:.80} was given; expected text such as '512MiB' or '2GiB'.")


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value


def _check_variables(value: object) -> None:
    if not isinstance(value, dict) or not all(isinstance(key, str) and isinstance(item, str) for key, item in value.items()):
        raise InvalidTypeError(f"env={value!r:.120} was given; expected a dict of text to text, the environment variables.")
