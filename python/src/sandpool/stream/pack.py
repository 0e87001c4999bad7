"""Entries that wait to be sent, merged into as few messages as can carry them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sandpool.stream.entries import Entry, Resets, Steps
from sandpool.values.encode import encode_json
from sandpool.wire.message import encode_message


class Outgoing(NamedTuple):
    """A numbered message, kept until its rows are back; `text` says in which kind of frame it goes."""

    number: int
    entries: list[Entry]
    rows: list[int]
    data: bytes
    text: bool


def pack_entries(entries: Sequence[Entry], number: int, received: int) -> list[Outgoing]:
    """Return messages numbered from `number` on that carry all of `entries`, which have no row in common.

    Steps with arrays of one dtype and shape are one message, so are steps with JSON actions, and so are resets. A reset with a whole
    number as its seed stays alone, for to the pool it may be more than its rows' seeds.
    """
    groups: dict[Any, list[Any]] = {}
    for place, entry in enumerate(entries):
        groups.setdefault(_kind_of(entry, place), []).append(entry)
    return [_pack_group(group, first, received) for first, group in enumerate(groups.values(), number)]


def _kind_of(entry: Entry, place: int) -> object:
    if isinstance(entry, Steps):
        return (entry.actions.dtype.str, entry.actions.shape[1:]) if isinstance(entry.actions, np.ndarray) else "step"
    return ("reset", place) if isinstance(entry.seed, int) else ("reset", entry.hard, "all")


def _pack_group(group: list[Any], number: int, received: int) -> Outgoing:
    rows = [row for entry in group for row in entry.rows]
    # Ascending, as every list of rows is that a pool makes.
    order = sorted(range(len(rows)), key=rows.__getitem__)
    rows = [rows[place] for place in order]
    if isinstance(group[0], Resets):
        return Outgoing(number, group, rows, _pack_resets(group, order, rows, number, received), text=True)
    if isinstance(group[0].actions, np.ndarray):
        actions = group[0].actions if len(group) == 1 else np.concatenate([entry.actions for entry in group])[order]
        members = {"number": number, "op": "step", "where": rows, "received": received}
        return Outgoing(number, group, rows, b"".join(encode_message(members, "actions", actions)), text=False)
    texts = [text for entry in group for text in entry.actions]
    actions_text = b",".join([texts[place] for place in order])
    return Outgoing(number, group, rows, _head("step", rows, number, received) + b',"actions":[%b]}' % actions_text, text=True)


def _pack_resets(group: Sequence[Resets], order: list[int], rows: list[int], number: int, received: int) -> bytes:
    seed, options, hard = group[0].seed, group[0].options, group[0].hard
    if len(group) > 1:
        seeds = [item for entry in group for item in (entry.seed if isinstance(entry.seed, list) else [None] * len(entry.rows))]
        texts = [text for entry in group for text in _each(entry)]
        seed, options = [seeds[place] for place in order], [texts[place] for place in order]
    options_text = b"[%b]" % b",".join(options) if isinstance(options, list) else options
    rest = b',"seed":%b,"options":%b,"hard":%b}' % (encode_json(seed), options_text, b"true" if hard else b"false")
    return _head("reset", rows, number, received) + rest


def _each(entry: Resets) -> list[bytes]:
    return entry.options if isinstance(entry.options, list) else [entry.options] * len(entry.rows)


def _head(operation: str, rows: list[int], number: int, received: int) -> bytes:
    return b'{"number":%d,"op":"%b","where":%b,"received":%d' % (number, operation.encode(), encode_json(rows), received)
