"""`fork`, `save`, `restore`, `drop` and `states`: what is sent, what is made of the replies, and what is refused before."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest

import sandpool
from replay_server import http_error, http_json
from sandpool import RLPool, State

from .conftest import LIST, Replayed, batch

FORK, RESTORE, STATES = (f"POST /v1/pools/p1/{name}" for name in ("fork", "restore", "states"))


def saved(row: int, **more: Any) -> dict[str, Any]:
    times = {"episode": 2, "step": 17, "seed": 5, "created_at": "2030-01-02T03:04:05.678Z"}
    return {"id": f"st_{row}", "row": row, **times, "way": "fork", "pending": False, "lost": None, **more}


def state(row: int, pool_id: str = "p1", key: str | None = None) -> State:
    return State(key or f"st_{row}", pool_id, row, 2, 17, 5, datetime.now(timezone.utc), "fork", False, None)


def sent(replayed: Replayed, route: str) -> list[dict]:
    bodies = [json.loads(request.body) for request in replayed.server.of(route)]
    assert all(body.pop("client") for body in bodies)
    return bodies


def rows(*first: float) -> np.ndarray:
    return np.array([[number, number] for number in first], "<f4")


def test_a_fork_returns_what_a_reset_does_and_notes_infos_and_what_was_reseeded(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.server.answer(FORK, batch(1, rows(7, 8), infos={"2": {"task": 4}}, reseeded=[["random", "np_random"], None]))
    obs = pool.fork([0, 1], [2, 0], reseed=[None, 9])
    assert sent(replayed, FORK) == [{"seq": 1, "pairs": [[0, 2], [1, 0]], "reseed": [None, 9]}]
    # The reply is in index order: rows 0 and 2. Row 1 keeps its last observation.
    assert obs.tolist() == [[7, 7], [2, 3], [8, 8]]
    assert pool.reset_infos == [{}, {}, {"task": 4}]
    assert pool.reseeded == {0: ["random", "np_random"]}
    assert pool.errors == {}
    replayed.on_step(batch(2, rows(1, 1, 1), [0.0] * 3))
    assert pool.step([0, 0, 0]).obs.tolist() == [[1, 1]] * 3


@pytest.mark.parametrize(
    ("src", "dst", "pairs"),
    [
        (0, 1, [[0, 1]]),
        (np.int64(2), np.int32(0), [[2, 0]]),
        (0, range(1, 3), [[0, 1], [0, 2]]),
        (1, [2, 0], [[1, 2], [1, 0]]),
        (1, [True, False, True], [[1, 0], [1, 2]]),
        (1, np.array([False, True, False]), [[1, 1]]),
        ([0, 1], [1, 0], [[0, 1], [1, 0]]),
        ([2, 2], np.array([1, 0], np.uint8), [[2, 1], [2, 0]]),
        ((2, 0), np.array([True, True, False]), [[2, 0], [0, 1]]),
        ([2], 0, [[2, 0]]),
    ],
)
def test_one_source_goes_to_all_targets_and_several_to_one_each(replayed: Replayed, src: Any, dst: Any, pairs: list) -> None:
    pool = replayed.array_pool()
    replayed.server.answer(FORK, batch(1, rows(*range(len(pairs)))))
    pool.fork(src, dst)
    assert sent(replayed, FORK) == [{"seq": 1, "pairs": pairs, "reseed": None}]


@pytest.mark.parametrize(
    ("src", "dst", "told"),
    [
        (True, 1, "src"),
        ([True, False, False], 1, "mask does not say"),
        ([0, True], [1, 2], r"src\[1\]=True"),
        ("0", 1, "src"),
        (0.0, 1, "src"),
        (None, 1, "src"),
        (3, 1, "src=3 .* 0..2"),
        (-1, 1, "do not count from the end"),
        ([0, 1], [2], "src has 2 rows and dst 1"),
        ([0], [1, 2], "one number as src"),
        ([], 1, "src has 0 rows and dst 1"),
        (0, None, "dst=None"),
        (0, [1, 1], "dst= has the row index 1 twice"),
        (0, [1, 3], r"dst= has the row index 3; expected 0\.\.2"),
        (0, 3, "dst=3"),
        (0, True, "dst="),
        (0, [True, False], "dst= is a mask of 2 rows; the pool has 3"),
        (0, [1.0], "dst="),
        (0, "1", "dst="),
        (0, slice(1, 3), "dst="),
    ],
)
def test_wrong_rows_are_refused_before_anything_is_sent(replayed: Replayed, src: Any, dst: Any, told: str) -> None:
    pool = replayed.array_pool()
    with pytest.raises((sandpool.InvalidValueError, sandpool.InvalidTypeError), match=told):
        pool.fork(src, dst)
    assert sent(replayed, FORK) == []


@pytest.mark.parametrize(
    ("reseed", "wire"),
    [(None, None), (False, None), (np.False_, None), (True, True), (np.True_, True), (0, 0), (np.int64(7), 7), ((3, None), [3, None])],
)
def test_reseed_is_sent_in_its_form(replayed: Replayed, reseed: Any, wire: Any) -> None:
    pool = replayed.array_pool()
    replayed.server.answer(FORK, batch(1, rows(1, 2)))
    pool.fork(0, [2, 1], reseed=reseed)
    assert sent(replayed, FORK)[0]["reseed"] == wire


@pytest.mark.parametrize(
    ("reseed", "told"),
    [
        (-1, "reseed=-1"),
        (2**53, "reseed="),
        (2**53 - 2, "would pass"),
        (1.5, "reseed=1.5"),
        ("1", "reseed="),
        ([1], "list of 1; expected 2"),
        ([1, -1], r"reseed\[1\]"),
        ([1, True], r"reseed\[1\]"),
    ],
)
def test_a_wrong_reseed_is_refused_before_anything_is_sent(replayed: Replayed, reseed: Any, told: str) -> None:
    pool = replayed.array_pool()
    with pytest.raises((sandpool.InvalidValueError, sandpool.InvalidTypeError), match=told):
        pool.fork(0, [1, 2], reseed=reseed)
    assert sent(replayed, FORK) == []


def test_nothing_to_copy_is_nothing_to_send(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    assert pool.fork(0, []).tolist() == pool.initial_obs.tolist()
    assert pool.fork([], []).tolist() == pool.initial_obs.tolist()
    assert pool.fork(0, [False] * 3).tolist() == pool.initial_obs.tolist()
    assert pool.restore([]).tolist() == pool.initial_obs.tolist()
    assert pool.restore(state(0), where=[]).tolist() == pool.initial_obs.tolist()
    assert (pool.save(where=[]), pool.drop([]), pool.reseeded, pool.errors) == ([], [], {}, {})
    assert [request.method for request in replayed.server.requests[4:]] == []


def test_a_copy_that_died_is_a_failed_row_of_the_batch(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    error = {"kind": "crash", "op": "reset", "message": "the copy ended"}
    replayed.server.answer(FORK, batch(1, rows(7, 0), infos={"2": {"sandpool_error": error}}, failed=[2]))
    with pytest.warns(sandpool.SandpoolWarning, match="environment 2 failed"):
        obs = pool.fork(0, [1, 2])
    assert obs.tolist() == [[0, 1], [7, 7], [4, 5]]
    assert pool.errors == {2: error}


def test_a_list_pool_gets_the_copies_observations(replayed: Replayed) -> None:
    pool = replayed.make(LIST, ["a", "b", "c"])
    replayed.server.answer(FORK, batch(1, ["a", "a"]))
    assert pool.fork(0, [1, 2]) == ["a", "a", "a"]


def test_where_nothing_could_be_reseeded_is_a_warning_at_the_call_and_safe_for_a_terminal(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.server.answer(FORK, batch(1, rows(7), reseeded=[[]], warnings=["reseed: nothing in row 1\x1b[2J"]))
    with pytest.warns(sandpool.SandpoolWarning, match="nothing in row 1") as caught:
        pool.fork(0, 1, reseed=4)
    assert pool.reseeded == {1: []}
    assert "\x1b" not in str(caught[0].message)
    assert caught[0].filename == __file__


def test_a_save_returns_a_state_for_each_row_in_the_order_asked(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.server.answer(STATES, http_json(201, {"seq": 1, "states": [saved(0), saved(2, seed=None, pending=True)], "timing": {}}))
    two, zero = pool.save(where=[2, 0])
    assert sent(replayed, STATES) == [{"seq": 1, "where": [0, 2]}]
    assert (zero.id, zero.row, zero.episode, zero.step, zero.seed, zero.way, zero.pending) == ("st_0", 0, 2, 17, 5, "fork", False)
    assert (two.row, two.seed, two.pending, two.pool_id, two.lost) == (2, None, True, "p1", None)
    assert zero.created_at == datetime(2030, 1, 2, 3, 4, 5, 678000, timezone.utc)
    assert repr(two) == "<State st_2 of row 2 of p1: episode 2, step 17, seed None, fork, at its end>"
    assert len({zero, two, state(0)}) == 2
    with pytest.raises(AttributeError):
        zero.row = 1  # type: ignore[misc]
    replayed.on_step(batch(2, rows(1, 1, 1), [0.0] * 3))
    pool.step([0, 0, 0])
    assert replayed.server.of(STATES)[0].headers["accept"] == "application/json"


@pytest.mark.parametrize("body", [{"seq": 1}, {"states": [saved(1)]}, {"states": [{"id": "st"}]}, {"states": {"a": 1}}, [1]])
def test_a_reply_without_the_states_is_out_of_form(replayed: Replayed, body: Any) -> None:
    pool = replayed.array_pool()
    replayed.server.answer(STATES, http_json(201, body))
    with pytest.raises(sandpool.ReplyError):
        pool.save(where=[0])


def test_a_restore_pairs_states_with_rows(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.server.answer(RESTORE, *[batch(seq, rows(*range(count))) for seq, count in enumerate((2, 2, 3, 1, 2), 1)])
    pool.restore([state(2), state(0)])
    pool.restore([state(2), state(0)], where=[1, 0])
    pool.restore(state(1), where=[True] * 3)
    pool.restore(state(1))
    pool.restore([state(1), state(1)], where=[0, 2], reseed=3)
    assert [body["pairs"] for body in sent(replayed, RESTORE)] == [
        [["st_2", 2], ["st_0", 0]],
        [["st_2", 1], ["st_0", 0]],
        [["st_1", 0], ["st_1", 1], ["st_1", 2]],
        [["st_1", 1]],
        [["st_1", 0], ["st_1", 2]],
    ]
    assert sent(replayed, RESTORE)[4]["reseed"] == 3


@pytest.mark.parametrize(
    ("states", "where", "told"),
    [
        ([state(1), state(1, key="st_b")], None, "several states of row 1"),
        ([state(0), state(1)], [2], "2 states and where= selects 1 rows"),
        ([state(0), state(1)], [0, 1, 2], "2 states and where= selects 3 rows"),
        ([], [0], "0 states"),
        ([state(0)], [0, 0], "twice"),
        ([state(0, "p2")], None, "st_0 of the pool p2; expected one of the pool p1"),
        ("st_0", None, "expected a State"),
        ([state(0), "st_1"], None, r"states\[1\] is of type str"),
        (None, None, "expected a State"),
        ({state(0): 1}, None, "expected a State"),
    ],
)
def test_wrong_states_are_refused_before_anything_is_sent(replayed: Replayed, states: Any, where: Any, told: str) -> None:
    pool = replayed.array_pool()
    with pytest.raises((sandpool.InvalidValueError, sandpool.InvalidTypeError), match=told):
        pool.restore(states, where=where)
    assert sent(replayed, RESTORE) == []


def test_what_cannot_be_copied_is_named_and_the_number_stays_free(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    sources = [
        {"row": 1, "blockers": [{"threads": 3, "names": ["openblas"]}], "text": "threads: 3 (openblas)"},
        {"row": 2, "blockers": [{"unreset": True}], "text": "unreset"},
    ]
    replayed.server.answer(FORK, http_error(422, "fork_unsupported", "row 1 cannot be copied: \x1b[2J", sources=sources), batch(1, rows(7)))
    with pytest.raises(sandpool.ForkUnsupportedError) as caught:
        pool.fork([1, 2], [0, 1])
    assert caught.value.sources == [(1, [{"threads": 3, "names": ["openblas"]}]), (2, [{"unreset": True}])]
    assert caught.value.code == "fork_unsupported"
    assert "\x1b" not in str(caught.value)
    pool.fork(0, 1)
    assert [body["seq"] for body in sent(replayed, FORK)] == [1, 1]


def test_a_refusal_about_states_has_the_states_that_were_given(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    zero, one = state(0), state(1)
    refused = [{"state": "st_1", "blockers": [{"shards": [0, 1]}], "text": "shards: 0, 1"}]
    replayed.server.answer(
        RESTORE,
        http_error(422, "fork_unsupported", sources=refused),
        http_error(404, "state_not_found", states=["st_1"]),
        http_error(410, "state_lost", states=["st_0"], error={"kind": "oom"}),
    )
    with pytest.raises(sandpool.ForkUnsupportedError) as unsupported:
        pool.restore([zero, one])
    assert unsupported.value.sources == [(one, [{"shards": [0, 1]}])]
    assert unsupported.value.sources[0][0] is one
    with pytest.raises(sandpool.StateNotFoundError) as missing:
        pool.restore([zero, one])
    assert missing.value.states == [one]
    assert isinstance(missing.value, LookupError)
    with pytest.raises(sandpool.StateLostError) as lost:
        pool.restore([zero, one])
    assert lost.value.states == [zero]
    assert not isinstance(lost.value, sandpool.PoolLostError)


def test_a_broken_connection_repeats_a_fork_and_a_save_with_the_same_bytes(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.server.answer(FORK, None, batch(1, rows(7)))
    replayed.server.answer(STATES, None, None, http_json(201, {"seq": 2, "states": [saved(0)], "timing": {}}))
    assert pool.fork(0, 1)[1].tolist() == [7, 7]
    assert [kept.id for kept in pool.save(where=[0])] == ["st_0"]
    for route, sequence, times in ((FORK, 1, 2), (STATES, 2, 3)):
        bodies = [request.body for request in replayed.server.of(route)]
        assert len(bodies) == times
        assert len(set(bodies)) == 1
        assert json.loads(bodies[0])["seq"] == sequence


def test_a_save_that_the_agent_failed_is_not_repeated(replayed: Replayed) -> None:
    """It kept nothing and its number is free: to repeat it would keep states that nobody knows."""
    pool = replayed.array_pool()
    replayed.server.answer(
        STATES, http_error(502, "agent_failed", next_seq=1), http_json(201, {"seq": 1, "states": [saved(1)], "timing": {}})
    )
    with pytest.raises(sandpool.ServerFailedError):
        pool.save(where=[0])
    pool.save(where=[1])
    assert sent(replayed, STATES) == [{"seq": 1, "where": [0]}, {"seq": 1, "where": [1]}]


def test_states_beyond_the_limit_are_a_limit_error(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.server.answer(STATES, http_error(429, "quota", held=1024, asked=3, limit=1024))
    with pytest.raises(sandpool.LimitError) as caught:
        pool.save()
    assert caught.value.details["limit"] == 1024


def test_drop_and_states_are_no_batches(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.server.answer("DELETE /v1/pools/p1/states", http_json(200, {"dropped": ["st_0"]}))
    lost = {"kind": "oom\x1b", "message": "…"}
    replayed.server.answer("GET /v1/pools/p1/states", http_json(200, {"states": [saved(0), saved(1, lost=lost)], "limits": {}}))
    replayed.server.answer(
        "GET /v1/pools/p1/states?memory=true", http_json(200, {"states": [saved(0, way="state", pss_bytes=99)], "limits": {}})
    )
    assert pool.drop([state(0), state(1)]) == ["st_0"]
    assert pool.drop(state(0)) == ["st_0"]
    assert pool.drop() == ["st_0"]
    assert [json.loads(request.body) for request in replayed.server.of("DELETE /v1/pools/p1/states")] == [
        {"states": ["st_0", "st_1"]},
        {"states": ["st_0"]},
        {"states": None},
    ]
    first, second = pool.states()
    assert (first.lost, second.lost) == (None, lost)
    assert "\x1b" not in repr(second)
    assert [(kept.way, kept.pss_bytes) for kept in pool.states(memory=True)] == [("state", 99)]
    with pytest.raises(sandpool.InvalidValueError, match="pool p2"):
        pool.drop(state(0, "p2"))
    replayed.on_step(batch(1, rows(1, 1, 1), [0.0] * 3))
    pool.step([0, 0, 0])


def test_a_closed_pool_refuses_all_of_them(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    pool.close()
    calls: list[Any] = [lambda: pool.fork(0, 1), pool.save, lambda: pool.restore([]), pool.drop, pool.states]
    for call in calls:
        with pytest.raises(sandpool.PoolClosedError):
            call()


def test_the_verbs_are_those_of_the_class() -> None:
    assert {"fork", "save", "restore", "drop", "states", "reseeded"} <= set(dir(RLPool))
