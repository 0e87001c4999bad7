from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

import sandpool
from replay_server import http_error
from sandpool.pool import channel

from .conftest import Replayed, batch

OBS = np.ones((3, 2), "<f4")


def step_reply(seq: int, obs: np.ndarray = OBS) -> bytes:
    return batch(seq, obs, [float(seq)] * 3)


@pytest.mark.parametrize("breaks", [1, 3])
def test_a_broken_connection_is_repeated_with_the_same_number_and_body(replayed: Replayed, breaks: int) -> None:
    pool = replayed.array_pool()
    replayed.on_step(*[None] * breaks, step_reply(1), step_reply(2))
    assert pool.step([1, 0, 1]).rewards[0] == 1
    assert pool.step([1, 0, 1]).rewards[0] == 2
    assert replayed.sequences() == [1] * (breaks + 1) + [2]
    sent = replayed.server.of("POST /v1/pools/p1/step")
    assert len({request.body for request in sent[: breaks + 1]}) == 1


def test_a_connection_that_always_breaks_is_given_up_and_the_next_call_first_settles_the_batch(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.on_step(None)
    with pytest.raises(sandpool.ConnectionLostError, match="broke 5 times for the same batch"):
        pool.step([1, 0, 1])
    replayed.on_step(step_reply(1, OBS * 7), step_reply(2))
    assert pool.step([0, 0, 0]).rewards[0] == 2
    assert replayed.sequences() == [1] * 6 + [2]
    first, *_, settled, new = [request.body for request in replayed.server.of("POST /v1/pools/p1/step")]
    assert settled == first != new


def test_an_interrupted_batch_is_settled_before_the_next_and_its_observations_count(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    arrived = threading.Event()

    def silent(_: object) -> bytes:
        arrived.set()
        return b""

    def interrupt() -> None:
        arrived.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    error = {"sandpool_error": {"kind": "crash", "op": "step", "message": "gone"}}
    replayed.on_step(silent, step_reply(1, OBS * 7), batch(2, OBS, [2.0] * 3, infos={"1": error}, failed=[1]))
    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        pool.step([1, 0, 1])
    with pytest.warns(sandpool.SandpoolWarning):
        result = pool.step([0, 0, 0])
    assert result.rewards.tolist() == [2.0] * 3
    np.testing.assert_array_equal(result.obs, [[1, 1], [7, 7], [1, 1]])
    assert replayed.sequences() == [1, 1, 2]


def test_busy_after_a_broken_connection_is_our_own_batch_and_waited_for(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.on_step(None, http_error(409, "pool_busy"), http_error(409, "pool_busy"), step_reply(1))
    assert pool.step([1, 0, 1]).rewards[0] == 1
    assert replayed.sequences() == [1, 1, 1, 1]


def test_busy_without_a_broken_connection_is_another_clients_batch(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.on_step(http_error(409, "pool_busy"), step_reply(1))
    with pytest.raises(sandpool.PoolBusyError):
        pool.step([1, 0, 1])
    assert pool.step([1, 0, 1]).rewards[0] == 1
    assert replayed.sequences() == [1, 1]


def test_a_pool_used_by_another_thread_is_busy_and_nothing_is_sent(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    arrived, go_on = threading.Event(), threading.Event()

    def slow(_: object) -> bytes:
        arrived.set()
        go_on.wait(10)
        return step_reply(1)

    replayed.on_step(slow, step_reply(2))
    results = []
    other = threading.Thread(target=lambda: results.append(pool.step([1, 0, 1])))
    other.start()
    arrived.wait(10)
    with pytest.raises(sandpool.PoolBusyError, match="another thread"):
        pool.step([0, 0, 0])
    go_on.set()
    other.join(10)
    assert results[0].rewards[0] == 1
    assert pool.step([0, 0, 0]).rewards[0] == 2
    assert replayed.sequences() == [1, 2]


def test_a_wrong_number_is_raised_and_the_expected_one_used_from_then_on(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.on_step(http_error(409, "pool_sequence", expected=9, received=1), step_reply(9))
    with pytest.raises(sandpool.PoolSequenceError):
        pool.step([1, 0, 1])
    pool.step([1, 0, 1])
    assert replayed.sequences() == [1, 9]


def test_a_refused_batch_does_not_use_up_its_number(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.on_step(http_error(400, "invalid_request"), step_reply(1))
    with pytest.raises(sandpool.RequestRefusedError):
        pool.step([1, 0, 1])
    pool.step([1, 0, 1])
    assert replayed.sequences() == [1, 1]


def test_after_a_failure_of_the_server_the_batch_is_settled_first(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.on_step(http_error(502, "agent_failed"), step_reply(1), step_reply(2))
    with pytest.raises(sandpool.ServerFailedError):
        pool.step([1, 0, 1])
    assert pool.step([1, 0, 1]).rewards[0] == 2
    assert replayed.sequences() == [1, 1, 2]


def test_a_failure_that_names_the_next_number_is_the_batchs_own_and_not_repeated(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.on_step(http_error(502, "agent_failed", next_seq=2), step_reply(2), http_error(502, "agent_failed", next_seq=3), step_reply(3))
    for _ in range(2):
        with pytest.raises(sandpool.ServerFailedError):
            pool.step([1, 0, 1])
        pool.step([0, 0, 0])
    assert replayed.sequences() == [1, 2, 3, 3]


def test_a_batch_that_no_connection_carried_is_forgotten(replayed: Replayed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_PAUSES_S", (0.0,))
    pool = replayed.array_pool()
    address = pool._channel._connection._address
    pool._channel._connection._address = sandpool.discovery.parse_url("http://127.0.0.1:1", "", "the test")
    with pytest.raises(sandpool.NoServerError):
        pool.step([1, 0, 1])
    pool._channel._connection._address = address
    replayed.on_step(step_reply(1))
    pool.step([0, 0, 0])
    assert replayed.sequences() == [1]
