"""How entries become messages, and what a session takes for its own."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sandpool
from sandpool.pool.observations import make_observations
from sandpool.pool.timing import Timing
from sandpool.stream.entries import make_resets, make_steps
from sandpool.stream.pack import pack_entries
from sandpool.stream.session import Session
from scripted_stream import decode

from .conftest import ARRAY


def step(row: int, action: object) -> object:
    return make_steps([action], [row], 4, None)


def test_steps_of_one_kind_are_one_message_in_the_order_of_rows() -> None:
    (message,) = pack_entries([step(2, 20), step(0, 0), make_steps([33, 11], [3, 1], 4, None)], 5, 9)
    assert decode(message.data) == {"number": 5, "op": "step", "where": [0, 1, 2, 3], "received": 9, "actions": [0, 11, 20, 33]}
    (message,) = pack_entries([step(2, "c"), step(0, {"a": None})], 1, 0)
    assert json.loads(message.data) == {"number": 1, "op": "step", "where": [0, 2], "received": 0, "actions": [{"a": None}, "c"]}


def test_what_does_not_fit_together_is_a_message_each() -> None:
    entries = [
        step(0, 1),
        step(1, 1.5),
        step(2, np.zeros(2)),
        make_resets(7, None, False, [3], 8),
        make_resets(8, None, False, [4], 8),
        make_resets([9], None, False, [5], 8),
        make_resets(None, {"a": 1}, True, [6], 8),
        make_resets([10], None, False, [7], 8),
    ]
    messages = pack_entries(entries, 1, 0)
    assert [message.number for message in messages] == list(range(1, 8))
    assert [message.rows for message in messages] == [[0], [1], [2], [3], [4], [5, 7], [6]]
    assert [json.loads(message.data)["seed"] for message in messages[3:]] == [7, 8, [9, 10], None]
    assert json.loads(messages[6].data)["hard"] is True


def test_options_of_merged_resets_are_each_rows_own() -> None:
    entries = [make_resets(None, {"a": 1}, False, [3, 1], 4), make_resets([5], [None], False, [2], 4)]
    (message,) = pack_entries(entries, 1, 0)
    expected = {"op": "reset", "where": [1, 2, 3], "seed": [None, 5, None], "options": [{"a": 1}, None, {"a": 1}], "hard": False}
    assert json.loads(message.data) == {"number": 1, "received": 0, **expected}


@pytest.mark.parametrize(("accepted", "next_result"), [(2, 1), (0, 2), (-1, 1)])
def test_a_session_does_not_go_on_with_numbers_that_are_not_its_own(accepted: int, next_result: int) -> None:
    session = Session(4, make_observations(ARRAY, 4), Timing())
    session.put(make_steps([1], [0], 4, None))
    (message,) = session.pack()
    assert session.resume(0, 1) == [message]
    assert session.resume(1, 1) == []
    with pytest.raises(sandpool.ReplyError, match=f"accepted={accepted} and next_result={next_result}"):
        session.resume(accepted, next_result)
