"""A stream whose connection breaks, is refused or ends: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import sandpool
from sandpool import RLPool
from sandpool.stream import connection
from scripted_stream import ScriptedStream, close_with

from .conftest import MakePool, N


def test_a_broken_connection_is_opened_again_in_the_same_session(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send([1] * 4)
    scripted.finish(0)
    assert pool.recv().index.tolist() == [0]
    scripted.cut()
    scripted.finish(1, 2)
    assert pool.recv(2).index.tolist() == [1, 2]
    scripted.finish(3)
    assert pool.recv().index.tolist() == [3]
    assert len(scripted.sessions) == 1
    assert [path.rpartition("=")[2] for path in scripted.paths] == ["0", "1"]


def test_messages_that_a_broken_connection_swallowed_are_sent_again_in_order(pool: RLPool, scripted: ScriptedStream) -> None:
    doomed = {2, 4}

    def dies(message: dict[str, Any]) -> bool:
        found = message["number"] in doomed
        doomed.discard(message["number"])
        return found

    scripted.dies = dies
    for count, row in enumerate((1, 3)):
        # An array and a value never go in one message.
        pool.send([row - 1], where=[row - 1])
        pool.send([{"go": row}], where=[row])
        scripted.wait_until_out(2 * count + 2)
    scripted.finish(3, 2, 1, 0)
    assert pool.recv(4).index.tolist() == [3, 2, 1, 0]
    assert sorted(scripted.executed, key=lambda done: done[1]) == [
        ("step", 0, 0),
        ("step", 1, {"go": 1}),
        ("step", 2, 2),
        ("step", 3, {"go": 3}),
    ]
    assert [message["number"] for message in scripted.messages] == [1, 2, 3, 4]
    assert doomed == set()


def test_cuts_at_any_moment_neither_lose_nor_repeat_a_step(pool: RLPool, scripted: ScriptedStream) -> None:
    random = np.random.default_rng(0)
    scripted.automatic = True
    scripted.dies = lambda _: random.random() < 0.1
    sent = np.zeros(N, int)
    received = np.zeros(N, int)
    pool.send([1] * N)
    sent += 1
    while received.sum() < 400:
        result = pool.recv()
        received[result.index] += 1
        assert result.obs.tolist() == [[row, received[row]] for row in result.index]
        if random.random() < 0.1:
            scripted.cut()
        pool.send([1] * len(result.index), where=result.index)
        sent[result.index] += 1
        if random.random() < 0.1:
            scripted.cut()
    pool.recv(len(pool.rows_out))
    assert list(scripted.steps.values()) == sent.tolist()
    assert len(scripted.paths) > 5


def test_interrupts_at_any_moment_leave_the_stream_whole(pool: RLPool, scripted: ScriptedStream) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    scripted.automatic = True
    before = signal.signal(signal.SIGALRM, interrupt)
    interrupts = 0
    try:
        for moment in np.random.default_rng(1).uniform(1e-5, 3e-3, 400):
            try:
                signal.setitimer(signal.ITIMER_REAL, moment)
                if len(pool.rows_out) == 0:
                    pool.send([1] * N)
                pool.recv(N)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts > 0
    if len(pool.rows_out) > 0:
        pool.recv(N)
    pool.send([1] * N)
    result = pool.recv(N)
    # Each message was for all rows, and the rows know of every one.
    assert sorted(result.obs[:, 1].tolist()) == [len(scripted.messages)] * N


@pytest.mark.parametrize(
    ("code", "error", "family"),
    [
        (4404, {"code": "pool_not_found", "message": "no such pool"}, sandpool.NotFoundError),
        (4410, {"code": "pool_closed", "message": "closed", "details": {"reason": "lease"}}, sandpool.PoolLostError),
        (4410, {"code": "pool_lost", "message": "its worker stopped"}, sandpool.PoolLostError),
        (4409, {"code": "pool_busy", "message": "another session has it"}, sandpool.PoolBusyError),
        (4401, {"code": "unauthorized", "message": "revoked"}, sandpool.AuthenticationError),
        (4400, {"code": "invalid_request", "message": "number 9"}, sandpool.RequestRefusedError),
    ],
)
@pytest.mark.parametrize("moment", ["at the opening", "later"])
def test_what_the_server_says_as_it_ends_the_stream_is_raised(
    pool: RLPool, scripted: ScriptedStream, code: int, error: dict[str, Any], family: type, moment: str
) -> None:
    if moment == "at the opening":
        scripted.opening = lambda opened: bool(close_with(opened, code, error))
        pool.send([1] * 4)
    else:
        pool.send([1] * 4)
        scripted.finish(2)
        scripted.end(code, error)
        assert pool.recv().index.tolist() == [2]
    with pytest.raises(family, match=error["message"]) as caught:
        pool.recv(3)
    assert caught.value.code == error["code"]
    assert pool.rows_out.tolist() == []


def test_results_that_came_before_the_end_can_still_be_received(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send([1] * 4)
    scripted.finish(0)
    scripted.finish(1)
    scripted.end(4410, {"code": "pool_lost", "message": "gone"})
    assert pool.recv(2).index.tolist() == [0, 1]
    with pytest.raises(sandpool.PoolLostError, match="gone"):
        pool.recv()


def test_a_wrong_key_is_refused_before_the_stream_opens(make_pool: MakePool, scripted: ScriptedStream) -> None:
    pool = make_pool()
    pool._endpoint = pool._endpoint._replace(address=sandpool.discovery.parse_url(scripted.url, "wrong", "the test"))
    pool.send([1] * 4)
    with pytest.raises(sandpool.AuthenticationError, match="wrong key"):
        pool.recv()


def test_a_session_that_gave_way_to_another_while_nothing_was_out_is_followed_by_a_new_one(pool: RLPool, scripted: ScriptedStream) -> None:
    scripted.automatic = True
    for _ in range(3):
        pool.send([1] * 4)
        pool.recv(4)
    scripted.forget()
    scripted.cut()
    wait_until_unconnected(pool)
    pool.send([5] * 4)
    assert pool.recv(4).rewards.tolist() == [5] * 4
    assert len(scripted.sessions) == 2
    assert scripted.accepted == 1


def test_a_server_out_of_reach_is_an_error_that_loses_nothing(
    pool: RLPool, scripted: ScriptedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_PAUSES_S", (0.0, 0.01))
    pool.send([1] * 4)
    scripted.wait_until_out(4)
    allowed = threading.Event()
    scripted.handshake = lambda opened, _: None if allowed.is_set() else opened.respond(503, "not now")
    scripted.cut()
    with pytest.raises(sandpool.ConnectionLostError, match="HTTP 503"):
        pool.recv(4)
    assert pool.rows_out.tolist() == [0, 1, 2, 3]
    allowed.set()
    scripted.finish(3, 2, 1, 0)
    assert pool.recv(4).index.tolist() == [3, 2, 1, 0]
    assert len(scripted.executed) == 4


def test_a_message_over_the_servers_limit_is_an_error_and_no_endless_repetition(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send([np.zeros(1 << 18), 1], where=[0, 1])
    with pytest.raises(sandpool.RequestRefusedError):
        pool.recv()
    assert len(scripted.paths) == 1


def test_close_while_rows_are_out_ends_a_waiting_recv(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send([1] * 4)
    scripted.wait_until_out(4)
    raised: list[BaseException] = []

    def receive() -> None:
        try:
            pool.recv()
        except sandpool.SandpoolError as error:
            raised.append(error)

    waiting = threading.Thread(target=receive)
    waiting.start()
    pool.close()
    waiting.join(20)
    assert [type(error) for error in raised] == [sandpool.PoolClosedError]
    with pytest.raises(sandpool.PoolClosedError):
        pool.send([1] * 4)


def test_one_thread_sends_while_another_receives(pool: RLPool, scripted: ScriptedStream) -> None:
    scripted.automatic = True
    free = threading.Semaphore(N)
    rows: list[int] = list(range(N))
    received: list[int] = []

    def send() -> None:
        for _ in range(200):
            free.acquire()
            pool.send([1], where=[rows.pop(0)])

    sender = threading.Thread(target=send)
    sender.start()
    while len(received) < 200:
        try:
            result = pool.recv(timeout=5)
        except sandpool.InvalidValueError:
            # Nothing was out yet.
            continue
        received += result.index.tolist()
        rows += result.index.tolist()
        free.release(len(result.index))
    sender.join(10)
    assert sum(scripted.steps.values()) == 200


def test_a_forked_process_leaves_its_parents_stream_alone(pool: RLPool, scripted: ScriptedStream) -> None:
    pool.send([1] * 4)
    scripted.wait_until_out(4)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if len(pool.rows_out) == 0 and not pool.detach() else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    scripted.finish(0, 1, 2, 3)
    assert len(pool.recv(4).index) == 4
    assert len(scripted.paths) == 1


def wait_until_unconnected(pool: RLPool) -> None:
    """A stream whose connection broke with nothing out opens none until something is sent."""
    assert pool._stream is not None
    task = pool._stream._stream._task
    assert task is not None
    for _ in range(10_000):
        if task.done():
            return
        time.sleep(0.001)
    pytest.fail("the connection is still there")
