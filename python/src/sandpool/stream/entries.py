"""What a caller asks of some rows, checked and in a form of its own, so that later changes to the arguments change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sandpool.errors import InvalidTypeError, InvalidValueError
from sandpool.pool.actions import read_actions
from sandpool.pool.options import check_seed
from sandpool.pool.selection import Selection, select_rows
from sandpool.values.encode import encode_json

Array = np.ndarray[Any, np.dtype[Any]]
Seeds: TypeAlias = "int | list[int | None] | None"


class Steps(NamedTuple):
    """Steps of some rows; `actions` is one array ``(k, …)``, or the JSON text of each action."""

    rows: list[int]
    actions: Array | list[bytes]


class Resets(NamedTuple):
    """Resets of some rows; `seed` s gives row i the seed s+i, `options` is the JSON text for all of them or of each."""

    rows: list[int]
    seed: Seeds
    options: bytes | list[bytes]
    hard: bool


Entry: TypeAlias = "Steps | Resets"


def make_steps(actions: object, where: object, n: int, space: dict[str, Any] | None) -> Steps:
    """Check the arguments of a `send`; raises InvalidValueError or InvalidTypeError as `step` does."""
    selection = select_rows(where, n)
    chosen = read_actions(actions, selection, n, space)
    rows = list(selection.indices())
    if isinstance(chosen, np.ndarray):
        return Steps(rows, chosen.copy())
    return Steps(rows, [encode_json(action, f"actions[{place}]") for place, action in enumerate(chosen)])


def make_resets(seed: object, options: object, hard: object, where: object, n: int) -> Resets:
    """Check the arguments of a `send_reset`; lists have one item for each selected row, in the order of `where`, or n."""
    if hard is not True and hard is not False:
        raise InvalidTypeError(f"hard={hard!r:.80} was given; expected True or False.")
    selection = select_rows(where, n)
    return Resets(list(selection.indices()), _read_seeds(seed, selection, n), _read_options(options, selection, n), hard)


def _read_seeds(seed: object, selection: Selection, n: int) -> Seeds:
    if isinstance(seed, np.ndarray):
        seed = seed.tolist()
    if not isinstance(seed, (list, tuple)):
        check_seed("seed", seed)
        return None if seed is None else int(seed)  # type: ignore[call-overload]
    for place, item in enumerate(seed):
        check_seed(f"seed[{place}]", item)
    return [None if item is None else int(item) for item in _choose("seed", seed, selection, n)]


def _read_options(options: object, selection: Selection, n: int) -> bytes | list[bytes]:
    if options is None or isinstance(options, dict):
        return encode_json(options, "options")
    if not isinstance(options, (list, tuple)):
        raise InvalidTypeError(f"options is of type {type(options).__name__}; expected a dict for all rows, or a list with one for each.")
    chosen = _choose("options", options, selection, n)
    for place, item in enumerate(chosen):
        if item is not None and not isinstance(item, dict):
            raise InvalidTypeError(f"options[{place}] is of type {type(item).__name__}; expected a dict or None.")
    return [encode_json(item, f"options[{place}]") for place, item in enumerate(chosen)]


def _choose(name: str, items: Sequence[Any], selection: Selection, n: int) -> list[Any]:
    if len(items) == selection.count:
        return list(items) if selection.order is None else [items[place] for place in selection.order.tolist()]
    if len(items) == n:
        return [items[row] for row in selection.indices()]
    raise InvalidValueError(
        f"{name} is a list of {len(items)}; expected {selection.count}, one for each selected row, or one for each of the pool's {n} rows.",
        hint="Nothing was sent.",
    )
