"""What send and recv give and refuse, with a stream whose rows finish when the test says so."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import sandpool
from sandpool import RLPool
from scripted_stream import ScriptedStream

from .conftest import MakePool

CRASH = {"kind": "crash", "op": "step", "message": "gone"}


def test_results_come_in_the_order_in_which_rows_finish(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send([10, 11, 12, 13])
    scripted.finish(2)
    scripted.finish(0, 3)
    result = pool.recv(min_ready=3)
    assert result.index.dtype == np.int64
    assert result.index.tolist() == [2, 0, 3]
    obs, rewards, dones, infos = result
    assert obs.dtype == np.float32
    assert obs.tolist() == [[2, 1], [0, 1], [3, 1]]
    assert rewards.tolist() == [12, 10, 13]
    assert infos == [{}, {}, {}]
    assert result.ops.tolist() == ["step"] * 3
    assert dones.tolist() == result.terminated.tolist() == result.truncated.tolist() == [False] * 3
    assert pool.rows_out.tolist() == [1]


def test_a_recv_returns_all_rows_that_are_ready_and_leaves_the_others_out(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send_reset()
    scripted.finish(3, 1)
    assert pool.recv().index.tolist() == [3, 1]
    scripted.finish(0)
    assert pool.recv().index.tolist() == [0]
    scripted.finish(2)
    assert pool.recv().index.tolist() == [2]


def test_actions_and_options_are_in_the_order_of_where(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send([30, 10], where=[3, 1])
    pool.send_reset(where=[2, 0], options=[{"task": 2}, {"task": 0}], seed=[22, None])
    scripted.wait_until_out(4)
    assert scripted.executed == [("step", 1, 10), ("step", 3, 30), ("reset", 0, {"task": 0}), ("reset", 2, {"task": 2})]
    assert scripted.messages[1]["seed"] == [None, 22]
    scripted.finish(0, 1, 2, 3)
    assert pool.recv(4).ops.tolist() == ["reset", "step", "reset", "step"]


def test_actions_that_are_no_numbers_go_as_values(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send(["look", {"go": (1, 2)}], where=[0, 1])
    scripted.wait_until_out(2)
    assert scripted.messages[0]["actions"] == ["look", {"go": {"$tuple": [1, 2]}}]


def test_what_was_sent_is_a_copy(pool: RLPool, scripted: ScriptedStream) -> None:
    actions = np.zeros(4, np.int64)
    for value in range(100):
        actions[:] = value
        pool.send(actions)
        actions[:] = -1
        scripted.finish(0, 1, 2, 3)
        assert pool.recv(4).rewards.tolist() == [value] * 4


def test_returned_arrays_are_the_callers_own_and_never_change(pool: RLPool, scripted: ScriptedStream) -> None:
    scripted.automatic = True
    kept = []
    for value in range(5):
        pool.send([value] * 4)
        kept.append(pool.recv(4))
        kept[-1].obs[:, 0] = 99
        kept[-1].rewards[:] += 1
    assert [result.obs[:, 1].tolist() for result in kept] == [[steps] * 4 for steps in range(1, 6)]
    assert [result.rewards.tolist() for result in kept] == [[value + 1.0] * 4 for value in range(5)]
    assert all((result.obs[:, 0] == 99).all() for result in kept)


def test_a_list_pool_gives_lists(make_pool: MakePool, scripted: ScriptedStream) -> None:
    pool = make_pool({"kind": "list"}, ["a", "b", "c", "d"])
    pool.send([1, 2], where=[0, 1])
    scripted.finish(1, 0, obs=[{"text": "one"}, None])
    result = pool.recv(2)
    assert result.obs == [{"text": "one"}, None]
    assert result.index.tolist() == [1, 0]


def test_more_rows_than_are_out_are_refused_and_never_waited_for(pool: RLPool, scripted: ScriptedStream) -> None:
    with pytest.raises(sandpool.InvalidValueError, match=r"min_ready=1\) was called while 0 rows are out"):
        pool.recv()
    pool.send([1, 1], where=[0, 1])
    with pytest.raises(sandpool.InvalidValueError, match=r"min_ready=3\) was called while 2 rows are out; expected at most 2"):
        pool.recv(min_ready=3)
    scripted.finish(0, 1)
    assert len(pool.recv(2).index) == 2


def test_a_timeout_is_a_timeouterror_and_loses_nothing(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send([1, 1], where=[0, 1])
    scripted.finish(1)
    with pytest.raises(TimeoutError, match=r"rows were ready after 0.05 s; expected min_ready=2") as caught:
        pool.recv(min_ready=2, timeout=0.05)
    assert isinstance(caught.value, sandpool.NotReadyError)
    scripted.finish(0)
    assert pool.recv(min_ready=2).index.tolist() == [1, 0]


def test_a_row_that_is_out_is_not_sent_again(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send([1, 1], where=[0, 1])
    with pytest.raises(sandpool.PoolBusyError, match="1 of the rows to be sent are out, the first is row 1") as caught:
        pool.send([1, 1], where=[1, 2])
    assert caught.value.details["rows"] == [1]
    scripted.finish(0, 1)
    with pytest.raises(sandpool.PoolBusyError):
        pool.send_reset(where=[1])
    pool.recv(2)
    pool.send([5, 5], where=[1, 2])
    scripted.finish(1, 2)
    assert [row for _, row, _ in scripted.executed] == [0, 1, 1, 2]


@pytest.mark.parametrize("batch", [lambda p: p.step([1] * 4), lambda p: p.reset(), lambda p: p.call("x"), lambda p: p.get_attr("x")])
def test_a_batch_is_refused_while_rows_are_out_and_says_how_many(pool: RLPool, scripted: ScriptedStream, batch: object) -> None:
    pool.send([1, 1, 1], where=[0, 1, 3])
    scripted.finish(0)
    with pytest.raises(sandpool.PoolBusyError, match="while 3 rows are out"):
        batch(pool)  # type: ignore[operator]


def test_an_empty_selection_sends_nothing(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send([], where=[])
    pool.send_reset(where=np.zeros(4, bool))
    assert pool.rows_out.tolist() == []
    assert scripted.paths == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda p: p.send([1, 2]), "2 actions were given; expected 4"),
        (lambda p: p.send([1], where=[9]), r"row index 9; expected 0\.\.3"),
        (lambda p: p.send_reset(seed=[1, 2, 3]), "seed is a list of 3; expected 4"),
        (lambda p: p.send_reset(options=[{}, {}, 3, {}]), r"options\[2\] is of type int"),
        (lambda p: p.send_reset(hard=1), "hard=1 was given"),
        (lambda p: p.recv(0), "min_ready=0 was given"),
        (lambda p: p.recv(timeout=-1), "timeout=-1 was given"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(pool: RLPool, scripted: ScriptedStream, wrong: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        wrong(pool)  # type: ignore[operator]
    assert scripted.paths == []


def test_a_refused_message_is_raised_by_recv_and_its_rows_are_free_again(pool: RLPool, scripted: ScriptedStream) -> None:
    refusals = [{"code": "invalid_request", "message": "actions[0] has 501 digits", "hint": None, "details": {}}]
    scripted.refuses_message = lambda _: refusals.pop() if refusals else None
    pool.send([1, 1], where=[0, 1])
    with pytest.raises(sandpool.RequestRefusedError, match="501 digits"):
        pool.recv(2)
    assert pool.rows_out.tolist() == []
    pool.send([2, 2], where=[0, 1])
    scripted.finish(1, 0)
    assert pool.recv(2).rewards.tolist() == [2, 2]


def test_a_failed_row_has_its_last_good_observation_and_is_warned_of_once(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send([1, 1], where=[0, 1])
    scripted.finish(0, 1)
    pool.recv(2)
    scripted.failing = {1: CRASH}
    pool.send([1, 1], where=[0, 1])
    scripted.finish(1, 0)
    with pytest.warns(sandpool.SandpoolWarning, match="environment 1 failed in step with crash: gone") as warned:
        result = pool.recv(2)
    assert warned[0].filename == __file__
    assert result.obs.tolist() == [[1, 1], [0, 2]]
    assert result.errors == pool.errors == {1: CRASH}
    assert result.infos == [{"sandpool_error": CRASH}, {}]
    assert result.truncated.tolist() == [True, False]
    assert pool.timing.stragglers_total == 1
    pool.send([1], where=[1])
    scripted.finish(1)
    assert pool.recv().errors == {1: CRASH}


def test_a_failed_row_is_raised_with_the_others_in_its_result(make_pool: MakePool, scripted: ScriptedStream) -> None:
    pool = make_pool(errors="raise")
    scripted.failing = {1: CRASH}
    pool.send([1, 1], where=[0, 1])
    scripted.finish(1, 0)
    with pytest.raises(sandpool.RowsFailedError) as caught:
        pool.recv(2)
    assert (caught.value.row, caught.value.kind) == (1, "crash")
    assert caught.value.result.index.tolist() == [1, 0]
    assert pool.rows_out.tolist() == []


def test_a_resets_info_is_the_rows_reset_info_and_times_are_kept(pool: RLPool, scripted: ScriptedStream) -> None:
    scripted.automatic = True
    pool.send_reset(seed=5)
    assert pool.recv(4).obs.tolist() == [[row, 0] for row in range(4)]
    assert scripted.messages[0]["seed"] == 5
    pool.send([7] * 4)
    assert pool.recv(4).terminated.tolist() == [True] * 4
    summary = pool.timing.summary()
    assert summary["batches"] == 2
    assert summary["worker_ms"]["p50"] == 1.5
    assert pool.timing.roundtrip_ms > 0


def test_one_entry_that_the_pool_does_not_like_costs_the_others_nothing(pool: RLPool, scripted: ScriptedStream) -> None:
    refusal = {"code": "invalid_request", "message": "13 is not liked"}
    scripted.refuses_message = lambda message: refusal if 13 in message["actions"] else None
    for row, action in enumerate([10, 11, 13, 14]):
        pool.send([action], where=[row])
    scripted.finish(0, 1, 3)
    with pytest.raises(sandpool.RequestRefusedError, match="13 is not liked"):
        pool.recv(3)
    result = pool.recv(3)
    assert result.index.tolist() == [0, 1, 3]
    assert result.rewards.tolist() == [10, 11, 14]
    assert pool.rows_out.tolist() == []


def test_a_silent_pool_is_an_error_after_the_longest_it_may_take_and_loses_nothing(pool: RLPool, scripted: ScriptedStream) -> None:
    pool._timeouts = dataclasses.replace(pool._timeouts, step_timeout=-59.9, reset_timeout=0, start_timeout=-59.9)
    pool.send([1] * 4)
    with pytest.raises(sandpool.ServerTimeoutError, match="said nothing for"):
        pool.recv(4)
    scripted.finish(0, 1, 2, 3)
    assert len(pool.recv(4).index) == 4
