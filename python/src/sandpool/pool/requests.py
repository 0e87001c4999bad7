"""Bodies of the batches of a pool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from sandpool.errors import InvalidTypeError, InvalidValueError
from sandpool.pool.channel import Encode
from sandpool.pool.options import check_per_row, check_seed
from sandpool.pool.pairs import Pairs, read_reseed
from sandpool.pool.selection import Selection
from sandpool.values.encode import encode_json
from sandpool.wire.message import CONTENT_TYPE, encode_message

JSON = "application/json"


def step_request(actions: Any, selection: Selection) -> tuple[str, Encode]:
    """Return media type and body of a step with the actions of the selected rows, as `read_actions` returns them."""
    where = selection.on_wire()
    if isinstance(actions, np.ndarray):
        array = actions
        return CONTENT_TYPE, lambda sequence, client: encode_message({"seq": sequence, "client": client, "where": where}, "actions", array)
    return JSON, _numbered({"where": json.dumps(where).encode(), "actions": encode_json(actions, "actions")})


def reset_request(seed: object, options: object, hard: object, selection: Selection, n: int) -> tuple[str, Encode]:
    """Return media type and body of a reset; a list of seeds or options has n items."""
    if hard is not True and hard is not False:
        raise InvalidTypeError(f"hard={hard!r:.80} was given; expected True or False.")
    check_per_row("options", options, n)
    if isinstance(options, (list, tuple)):
        options = [options[row] for row in selection.indices()]
    members = {
        "seed": encode_json(_read_seed(seed, n), "seed"),
        "where": encode_json(selection.on_wire(), "where"),
        "hard": encode_json(hard, "hard"),
        "options": encode_json(options, "options"),
    }
    return JSON, _numbered(members)


def call_request(call: str, name: object, selection: Selection, timeout_s: float | None, **free: bytes) -> tuple[str, Encode]:
    """Return media type and body of a call; `free` are its further members, encoded."""
    if not isinstance(name, str) or not name:
        raise InvalidTypeError(f"name is {name!r:.80}; expected the name of a method or attribute.")
    members = {
        "call": encode_json(call),
        "name": encode_json(name),
        "where": encode_json(selection.on_wire(), "where"),
        "timeout": encode_json(timeout_s, "timeout"),
        **free,
    }
    return JSON, _numbered(members)


def copy_request(pairs: Pairs, reseed: object, n: int) -> tuple[str, Encode]:
    """Return media type and body of a fork or a restore."""
    members = {"pairs": encode_json(pairs.on_wire(), "pairs"), "reseed": encode_json(read_reseed(reseed, pairs, n), "reseed")}
    return JSON, _numbered(members)


def save_request(selection: Selection) -> tuple[str, Encode]:
    """Return media type and body of a save."""
    return JSON, _numbered({"where": encode_json(selection.on_wire(), "where")})


def encode_arguments(args: object, kwargs: object) -> dict[str, bytes]:
    """Return the members of a call that hold its arguments."""
    if type(args) not in (list, tuple):
        raise InvalidTypeError(
            f"args is of type {type(args).__name__}; expected a list or tuple.", hint="For one argument write args=(x,)."
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidTypeError(f"kwargs is of type {type(kwargs).__name__}; expected a dict of keyword arguments.")
    return {"args": encode_json(list(args), "args"), "kwargs": encode_json(dict(kwargs or {}), "kwargs")}  # type: ignore[call-overload]


def encode_values(values: object, selection: Selection) -> dict[str, bytes]:
    """Return the members of a setting of attributes: one value for all, or a list with one for each selected row."""
    if not isinstance(values, (list, tuple)):
        return {"values": encode_json(values, "values"), "per_row": b"false"}
    if len(values) != selection.count:
        raise InvalidValueError(f"values is a list of {len(values)}; expected {selection.count}, one for each selected row.")
    return {"values": encode_json(list(values), "values"), "per_row": b"true"}


def _numbered(members: Mapping[str, bytes]) -> Encode:
    rest = b"".join(b',"%b":%b' % (name.encode(), text) for name, text in members.items())
    return lambda sequence, client: [b'{"seq":%d,"client":"%b"%b}' % (sequence, client.encode(), rest)]


def _read_seed(seed: object, n: int) -> int | list[int | None] | None:
    if isinstance(seed, np.ndarray):
        seed = seed.tolist()
    if not isinstance(seed, (list, tuple)):
        check_seed("seed", seed)
        return None if seed is None else int(seed)  # type: ignore[call-overload]
    if len(seed) != n:
        raise InvalidValueError(
            f"seed is a list of {len(seed)}; expected {n}, one for each row of the pool.", hint="None stands for a row without a seed."
        )
    for row, item in enumerate(seed):
        check_seed(f"seed[{row}]", item)
    return [None if item is None else int(item) for item in seed]
