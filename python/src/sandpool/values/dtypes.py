"""The dtypes that may cross the wire: numbers, booleans, dates and fixed-length text, never objects."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

_NAME = re.compile(
    r"(?:\|b1|[|<>=]?[iu][1248]|[<>]f(?:2|4|8|16)|[<>]c(?:8|16|32)|[<>][mM]8(?:\[\d{0,6}[A-Za-zμ]{1,2}\])?|\|S\d{1,7}|[<>]U\d{1,6})"
)


@lru_cache(maxsize=256)
def dtype_of(name: str) -> np.dtype[Any]:
    """Return the numpy dtype of a wire name such as ``<f4``; ValueError for anything that is not on the list.

    numpy's own parser is never given text from a sandbox: it accepts object and structured types.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"dtype {name!r:.40} is not one that crosses the wire")
    try:
        return np.dtype(name)
    except TypeError as error:
        raise ValueError(f"dtype {name!r:.40} is unknown to this numpy") from error


def is_portable(dtype: np.dtype[Any]) -> bool:
    """Whether an array of `dtype` can be sent."""
    return not dtype.hasobject and dtype.fields is None and _NAME.fullmatch(dtype.str) is not None
