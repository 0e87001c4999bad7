"""The `indices` of VecEnv's calls as rows of a pool."""

from __future__ import annotations

import operator
from collections.abc import Iterable

from sandpool.errors import InvalidTypeError, InvalidValueError


def rows_of(indices: int | Iterable[int] | None, n: int) -> list[int]:
    """Return the rows that `indices` name, in its order: None is all, an integer is one, negative ones count from the end.

    Raises InvalidValueError for one that is out of range or there twice, InvalidTypeError for what is no index.
    """
    if indices is None:
        return list(range(n))
    try:
        given = [operator.index(index) for index in (indices if isinstance(indices, Iterable) else [indices])]
    except TypeError as error:
        raise InvalidTypeError(f"indices={indices!r:.80} was given; expected None, a whole number or several.") from error
    for index in given:
        if not -n <= index < n:
            raise InvalidValueError(f"indices has {index}; expected {-n}..{n - 1}, for there are {n} environments.")
    rows = [index % n for index in given]
    if len(set(rows)) < len(rows):
        raise InvalidValueError(f"indices={given} name an environment twice; expected each once.")
    return rows
