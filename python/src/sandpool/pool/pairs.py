"""The arguments of `fork` and `restore`: which source goes to which rows, and with what randomness."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sandpool.errors import InvalidTypeError, InvalidValueError
from sandpool.pool.options import LARGEST_SEED, check_seed
from sandpool.pool.selection import Selection, select_rows
from sandpool.pool.state import State

Reseed = bool | int | list[int | None] | None


class Pairs(NamedTuple):
    """Sources and the rows that become their copies, in the order of the caller's; a source is a row or the id of a state."""

    sources: Sequence[int | str]
    targets: list[int]
    selection: Selection

    def on_wire(self) -> list[list[int | str]]:
        """Return them for a request."""
        return [[source, target] for source, target in zip(self.sources, self.targets, strict=True)]


def fork_pairs(src: object, dst: object, n: int) -> Pairs:
    """Pair one source row with all targets, or source k with target k.

    Raises InvalidValueError and InvalidTypeError, naming what was received and what was expected.
    """
    targets, selection = _read_targets("dst", dst, n)
    if _is_index(src):
        return Pairs([_read_row("src", src, n)] * len(targets), targets, selection)
    sources = _read_sources(src, n)
    if len(sources) != len(targets):
        raise InvalidValueError(
            f"src has {len(sources)} rows and dst {len(targets)}; expected equally many, or one number as src.", hint="Nothing was sent."
        )
    return Pairs(sources, targets, selection)


def restore_pairs(states: list[State], where: object, n: int) -> Pairs:
    """Pair state k with target k, one state with all targets, or without `where` each with the row it came from.

    Raises InvalidValueError and InvalidTypeError, naming what was received and what was expected.
    """
    ids = [state.id for state in states]
    if where is None:
        rows = [state.row for state in states]
        twice = [row for row, count in Counter(rows).items() if count > 1]
        if twice:
            raise InvalidValueError(
                f"states has several states of row {twice[0]}, and where= is not given; expected at most one for each row.",
                hint="Give where= the target rows, in the order of the states.",
            )
        return Pairs(ids, rows, select_rows(rows, n))
    targets, selection = _read_targets("where", where, n)
    if len(ids) == 1:
        return Pairs(ids * len(targets), targets, selection)
    if len(ids) != len(targets):
        raise InvalidValueError(
            f"states has {len(ids)} states and where= selects {len(targets)} rows; expected equally many, or one state for all.",
            hint="Nothing was sent.",
        )
    return Pairs(ids, targets, selection)


def read_reseed(reseed: object, pairs: Pairs, n: int) -> Reseed:
    """Return `reseed` for a request: None, True, an integer s (row i gets s+i), or a list with one for each pair."""
    if reseed is None or reseed is False or reseed is True or isinstance(reseed, np.bool_):
        return True if reseed else None
    if isinstance(reseed, np.ndarray):
        reseed = reseed.tolist()
    if not isinstance(reseed, (list, tuple)):
        check_seed("reseed", reseed)
        seed: int = int(reseed)  # type: ignore[call-overload]
        if seed + n - 1 > LARGEST_SEED:
            raise InvalidValueError(f"reseed={seed} was given; row i gets reseed + i, and the last would pass {LARGEST_SEED}.")
        return seed
    if len(reseed) != len(pairs.targets):
        raise InvalidValueError(f"reseed is a list of {len(reseed)}; expected {len(pairs.targets)}, one for each copy, None for none.")
    for place, seed in enumerate(reseed):
        check_seed(f"reseed[{place}]", seed)
    return [None if seed is None else int(seed) for seed in reseed]


def _read_targets(name: str, given: object, n: int) -> tuple[list[int], Selection]:
    """Return the rows in the order given, those of a mask ascending."""
    if given is None:
        raise InvalidTypeError(f"{name}=None was given; expected a row, a list of rows, or a bool mask of shape ({n},).")
    selection = select_rows([_read_row(name, given, n)] if _is_index(given) else given, n, name)
    if selection.order is None or selection.rows is None:
        return list(selection.indices()), selection
    targets = np.empty_like(selection.rows)
    targets[selection.order] = selection.rows
    return targets.tolist(), selection


def _read_sources(given: object, n: int) -> list[int]:
    try:
        array: np.ndarray[Any, np.dtype[Any]] = np.asarray(given)
    except ValueError as error:
        raise InvalidValueError(f"src is {given!r:.100}, which is neither a row nor a list of rows.") from error
    if array.dtype == np.bool_:
        raise InvalidTypeError(
            f"src is {given!r:.100}; expected a row or a list of rows, one for each target, for a mask does not say which goes where.",
            hint="np.flatnonzero(mask) are its rows.",
        )
    if array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise InvalidTypeError(
            f"src is {given!r:.100}, of dtype {array.dtype} and shape {array.shape}; expected a row or a list of rows, one for each target."
        )
    # In an array numpy would have made the bools of a mixed list 0 and 1.
    mixed = isinstance(given, (list, tuple))
    return [_read_row(f"src[{place}]", given[place] if mixed else row, n) for place, row in enumerate(array.tolist())]  # type: ignore[index]


def _is_index(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _read_row(name: str, value: Any, n: int) -> int:
    if not _is_index(value):
        raise InvalidTypeError(f"{name}={value!r:.80} was given; expected a row, a whole number of 0..{n - 1}.")
    if not 0 <= int(value) < n:
        raise InvalidValueError(
            f"{name}={value} was given; expected a row of 0..{n - 1}.", hint="Negative numbers do not count from the end."
        )
    return int(value)
