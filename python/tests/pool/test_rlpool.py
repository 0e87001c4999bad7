from __future__ import annotations

import gc
import hashlib
import inspect
import json
import warnings

import numpy as np
import pytest

import sandpool
from batches import DISCRETE
from replay_server import chunked, http, http_error, http_json
from sandpool import RLPool

from .conftest import LIST, Replayed, batch


def body_of(replayed: Replayed, operation: str) -> dict:
    """A pool's first request, without the client's random name."""
    body = json.loads(replayed.server.of(f"POST /v1/pools/p1/{operation}")[0].body)
    assert body.pop("client")
    return body


def test_the_archive_is_uploaded_under_its_hash_and_the_options_are_sent(replayed: Replayed) -> None:
    replayed.array_pool(seed=5, memory="1GiB", config={"map": (1, 2)}, env={"A": "b"})
    head, put, create, _ = replayed.server.requests
    sha256 = hashlib.sha256(put.body).hexdigest()
    assert (head.method, head.path) == ("HEAD", f"/v1/archives/{sha256}")
    assert (put.path, put.headers["content-type"]) == (f"/v1/archives/{sha256}", "application/zstd")
    assert {request.headers["authorization"] for request in replayed.server.requests} == {"Bearer key-of-the-test"}
    assert create.headers["accept"] == "application/x-ndjson"
    assert json.loads(create.body) == {
        "archive": sha256, "entry": "env.py", "n": 3, "seed": 5, "autoreset": None, "seeds": "derived", "start": "auto",
        "isolation": "namespace", "shards": "auto", "envs_per_process": 1, "python": "/usr/bin/python3", "env": {"A": "b"},
        "config": {"map": {"$tuple": [1, 2]}}, "image": "host", "network": False, "memory": "1GiB", "workspace": "1GiB",
        "step_timeout": 30, "reset_timeout": 60, "start_timeout": 120, "call_timeout": 30, "in_flight": None, "first_reset": True,
        "branching": True, "lease": 600, "name": None,
    }  # fmt: skip


def test_an_archive_that_the_server_has_is_not_sent_again(replayed: Replayed) -> None:
    replayed.server.fallback = lambda request: b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n"
    replayed.array_pool()
    assert [request.method for request in replayed.server.requests] == ["HEAD", "POST", "GET"]


def test_a_step_returns_fresh_arrays_that_no_later_call_changes(replayed: Replayed) -> None:
    pool = replayed.array_pool(described={"action_space": DISCRETE})
    np.testing.assert_array_equal(pool.initial_obs, [[0, 1], [2, 3], [4, 5]])
    ones, twos = np.ones((3, 2), "<f4"), np.full((3, 2), 2, "<f4")
    replayed.on_step(
        batch(1, ones, [1.0, 0.5, float("nan")], [True, False, False], [False, True, False], {"2": {"a": 1}}),
        batch(2, twos, [0.0] * 3),
    )
    result = pool.step([1, 0, 1])
    obs, rewards, dones, infos = result
    np.testing.assert_array_equal(obs, ones)
    np.testing.assert_array_equal(rewards, [1.0, 0.5, np.nan])
    assert (obs.dtype, rewards.dtype, dones.dtype) == (np.float32, np.float64, np.bool_)
    assert dones.tolist() == [True, True, False]
    assert result.terminated.tolist() == [True, False, False]
    assert result.truncated.tolist() == [False, True, False]
    assert infos == [{}, {}, {"a": 1}]
    assert result.errors == {}
    obs += 100
    later = pool.step([1, 0, 1])
    np.testing.assert_array_equal(later.obs, twos)
    np.testing.assert_array_equal(obs, ones + 100)
    assert rewards[0] == 1.0


def test_a_failed_row_keeps_its_last_good_observation_and_is_warned_of_once(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    error = {"kind": "timeout", "op": "step", "message": "no reply\x1b[2J", "traceback": "line 1\nline 2"}
    info = {"sandpool_error": error, "sandpool_straggler": True}
    obs = np.array([[9, 9], [0, 0], [9, 9]], "<f4")
    replayed.on_step(*[batch(seq, obs, [1, 0, 1], None, [False, True, False], {"1": info}, [1], stragglers=[1]) for seq in (1, 2)])
    with pytest.warns(sandpool.SandpoolWarning, match="environment 1 failed in step with timeout: no reply\\\\x1b") as caught:
        result = pool.step([0, 0, 0])
    assert len(caught) == 1
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(result.obs, [[9, 9], [2, 3], [9, 9]])
    assert result.errors == {1: error}
    assert pool.errors == {1: error}
    assert pool.timing.stragglers == [1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(pool.step([0, 0, 0]).obs[1], [2, 3])
    assert pool.timing.stragglers_total == 2


def test_errors_raise_raises_with_the_other_rows_in_the_result(replayed: Replayed) -> None:
    pool = replayed.array_pool(errors="raise")
    infos = {str(row): {"sandpool_error": {"kind": "crash", "op": "step", "message": "exit 3"}} for row in (0, 2)}
    replayed.on_step(batch(1, np.ones((3, 2), "<f4"), [0, 1, 0], infos=infos, failed=[0, 2]))
    with pytest.raises(sandpool.RowsFailedError, match=r"environment 0 failed in step with crash \(and 1 more: 2\)") as caught:
        pool.step([0, 0, 0])
    assert isinstance(caught.value, sandpool.EnvironmentFailedError)
    assert (caught.value.row, caught.value.kind, sorted(caught.value.errors)) == (0, "crash", [0, 2])
    assert caught.value.result.rewards.tolist() == [0, 1, 0]


def test_where_steps_only_its_rows(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.on_step(batch(1, np.array([[7, 7], [8, 8]], "<f4"), [1.0, 2.0], [True, False], [False, False], {"2": {"a": 1}}))
    result = pool.step(["for 2", "for 0"], where=[2, 0])
    request = body_of(replayed, "step")
    assert request == {"seq": 1, "where": [0, 2], "actions": ["for 0", "for 2"]}
    np.testing.assert_array_equal(result.obs, [[7, 7], [2, 3], [8, 8]])
    assert result.rewards.tolist() == [1.0, 0.0, 2.0]
    assert result.dones.tolist() == [True, False, False]
    assert result.infos == [{}, {"sandpool_skipped": True}, {"a": 1}]


def test_an_empty_where_sends_nothing(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    result = pool.step([], where=[False] * 3)
    np.testing.assert_array_equal(result.obs, pool.initial_obs)
    assert result.infos == [{"sandpool_skipped": True}] * 3
    np.testing.assert_array_equal(pool.reset(where=[]), pool.initial_obs)
    assert pool.call("x", where=[]) == [None] * 3
    assert replayed.server.of("POST /v1/pools/p1/step") == []


def test_a_reset_sends_seeds_for_all_and_options_of_the_selected(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.on_reset(batch(1, np.array([[5, 5], [6, 6]], "<f4"), infos={"0": {"task": "t0"}}))
    obs = pool.reset(seed=[1, 2, None], where=[True, False, True], hard=True, options=[{"t": 0}, {"t": 1}, None])
    np.testing.assert_array_equal(obs, [[5, 5], [2, 3], [6, 6]])
    assert pool.reset_infos == [{"task": "t0"}, {}, {}]
    assert body_of(replayed, "reset") == {
        "seq": 1,
        "seed": [1, 2, None],
        "where": [0, 2],
        "hard": True,
        "options": [{"t": 0}, None],
    }


def test_dict_and_tuple_spaces_are_dicts_and_tuples_of_arrays(replayed: Replayed) -> None:
    tree = {"dict": [["image", {"field": 0}], ["pose", {"tuple": [{"field": 1}, {"field": 2}]}]]}
    fields = [{"dtype": "|u1", "shape": [2, 2]}, {"dtype": "<f8", "shape": []}, {"dtype": "<i8", "shape": [1]}]
    columns = [np.arange(12, dtype="|u1").reshape(3, 2, 2), np.array([0.5, 1.5, 2.5]), np.array([[1], [2], [3]])]
    pool = replayed.make({"kind": "array", "fields": fields, "tree": tree}, columns)
    assert list(pool.initial_obs) == ["image", "pose"]
    np.testing.assert_array_equal(pool.initial_obs["image"], columns[0])
    assert isinstance(pool.initial_obs["pose"], tuple)
    np.testing.assert_array_equal(pool.initial_obs["pose"][1], columns[2])


def test_a_list_pool_has_any_values_and_none_for_a_failed_row(replayed: Replayed) -> None:
    pool = replayed.make(LIST, ["a", {"$tuple": [1]}, None])
    assert pool.initial_obs == ["a", (1,), None]
    info = {"sandpool_error": {"kind": "crash", "op": "step", "message": "gone"}}
    replayed.on_step(batch(1, ["b", None, "d"], [0, 0, 0], infos={"1": info}, failed=[1]), batch(2, ["e"], [0.0]))
    with pytest.warns(sandpool.SandpoolWarning):
        assert pool.step([1, 1, 1]).obs == ["b", None, "d"]
    assert pool.step([1], where=[0]).obs == ["e", (1,), "d"]


def test_a_call_returns_n_results_and_its_failures(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    error = {"kind": "exception", "op": "call", "message": "no such method"}
    replayed.on_call(
        batch(1, None, results=[{"$nd": ["<f4", [1], "AADAPw=="]}, None], infos={"2": {"sandpool_error": error}}, failed=[2]),
        batch(2, None, results=[True, True, True]),
    )
    with pytest.warns(sandpool.SandpoolWarning, match="failed in call"):
        results = pool.call("render", (1,), {"mode": b"x"}, where=[0, 2], timeout=2)
    assert results[1:] == [None, None]
    np.testing.assert_array_equal(results[0], [1.5])
    assert results.errors == {2: error}
    assert body_of(replayed, "call") == {
        "seq": 1, "call": "call", "name": "render", "where": [0, 2], "timeout": 2, "args": [1], "kwargs": {"mode": {"$bytes": "eA=="}},
    }  # fmt: skip
    assert pool.set_attr("level", [1, 2, 3]) == [True, True, True]
    sent = json.loads(replayed.server.of("POST /v1/pools/p1/call")[1].body)
    assert (sent["call"], sent["values"], sent["per_row"]) == ("set", [1, 2, 3], True)
    with pytest.raises(sandpool.InvalidValueError, match="list of 2; expected 3"):
        pool.set_attr("level", [1, 2])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n": 0}, sandpool.InvalidValueError, "n=0 was given; expected at least 1"),
        ({"n": 2.0}, sandpool.InvalidTypeError, "n=2.0"),
        ({"n": True}, sandpool.InvalidTypeError, "n=True"),
        ({"step_timout": 3}, sandpool.InvalidTypeError, "no option 'step_timout'[^?]*Did you mean 'step_timeout'"),
        (
            {"autoreset": "always"},
            sandpool.InvalidValueError,
            "autoreset='always' was given; expected None or 'auto' or 'same_step' or 'next_step'",
        ),
        ({"errors": "ignore"}, sandpool.InvalidValueError, "errors="),
        ({"network": 1}, sandpool.InvalidValueError, "network=1"),
        ({"step_timeout": 0}, sandpool.InvalidValueError, "step_timeout=0"),
        ({"lease": float("inf")}, sandpool.InvalidValueError, "lease=inf"),
        ({"memory": "lots"}, sandpool.InvalidValueError, "memory='lots'"),
        ({"memory": 1.5}, sandpool.InvalidTypeError, "memory=1.5"),
        ({"env": {"A": 1}}, sandpool.InvalidTypeError, "env="),
        ({"config": [{}]}, sandpool.InvalidValueError, "config is a list of 1; expected 3"),
        ({"config": {"a": object()}}, sandpool.InvalidTypeError, r"config\['a'\]"),
        ({"seed": -1}, sandpool.InvalidValueError, "seed=-1"),
        ({"seed": 2**53}, sandpool.InvalidValueError, "seed=9007199254740992"),
        ({"envs_per_process": 0}, sandpool.InvalidValueError, "envs_per_process=0"),
        ({"envs_per_process": 4}, sandpool.InvalidValueError, r'received 4; the pool has 3 rows\.[^?]*from 1 to 3, or "auto"'),
        ({"envs_per_process": "all"}, sandpool.InvalidTypeError, "envs_per_process='all'"),
        ({"env_dir": 3}, sandpool.InvalidTypeError, "env_dir"),
        ({"env_dir": "nowhere"}, sandpool.InvalidValueError, "does not exist"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_sent(replayed: Replayed, options: dict, error: type, message: str) -> None:
    settings = {"env_dir": replayed.folder, "n": 3, "progress": False, **options}
    with pytest.raises(error, match=message):
        RLPool(**settings)
    assert replayed.server.requests == []


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda pool: pool.step([1, 2]), sandpool.InvalidValueError),
        (lambda pool: pool.step(1), sandpool.InvalidTypeError),
        (lambda pool: pool.step([1, 2, 3], where=[9]), sandpool.InvalidValueError),
        (lambda pool: pool.reset(seed=[1]), sandpool.InvalidValueError),
        (lambda pool: pool.reset(seed="x"), sandpool.InvalidTypeError),
        (lambda pool: pool.reset(seed=[[1], [2, 3], 4]), sandpool.InvalidTypeError),
        (lambda pool: pool.reset(seed=np.zeros((3, 1), int)), sandpool.InvalidTypeError),
        (lambda pool: pool.call("f", (), [1]), sandpool.InvalidTypeError),
        (lambda pool: pool.reset(options=3), sandpool.InvalidTypeError),
        (lambda pool: pool.reset(hard="yes"), sandpool.InvalidTypeError),
        (lambda pool: pool.call(3), sandpool.InvalidTypeError),
        (lambda pool: pool.call("f", "x"), sandpool.InvalidTypeError),
        (lambda pool: pool.call("f", timeout=-1), sandpool.InvalidValueError),
        (lambda pool: pool.logs(3), sandpool.InvalidValueError),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_sent(replayed: Replayed, call: object, error: type) -> None:
    pool = replayed.array_pool()
    sent = len(replayed.server.requests)
    with pytest.raises(error):
        call(pool)
    assert len(replayed.server.requests) == sent


def test_the_signature_is_the_documented_one() -> None:
    assert list(inspect.signature(RLPool).parameters) == [
        "env_dir", "n", "seed", "autoreset", "seeds", "errors", "start", "isolation", "shards", "envs_per_process", "python", "env",
        "config", "image", "network", "memory", "workspace", "step_timeout", "reset_timeout", "start_timeout", "call_timeout", "in_flight",
        "first_reset", "branching", "lease", "name", "progress", "url", "api_key",
    ]  # fmt: skip


def test_the_error_that_ends_a_block_is_not_hidden_by_a_close_that_fails(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.server.answer("DELETE /v1/pools/p1", http_error(503, "server_closing"))
    with pytest.raises(ZeroDivisionError), pool:
        _ = 1 / 0
    other = replayed.array_pool()
    replayed.server.answer("DELETE /v1/pools/p1", http_error(503, "server_closing"))
    with pytest.raises(sandpool.ServerFailedError), other:
        pass


def test_a_failed_creation_is_the_error_of_the_last_line(replayed: Replayed) -> None:
    error = {"code": "environment_failed", "message": "environment 2 crashed", "hint": None, "details": {"row": 2, "kind": "crash"}}
    lines = [{"event": "accepted", "id": "x"}, {"event": "error", "error": error, "status": 422}]
    replayed.server.answer("POST /v1/pools", chunked([json.dumps(line).encode() + b"\n" for line in lines]))
    with pytest.raises(sandpool.EnvironmentFailedError, match="environment 2 crashed") as caught:
        RLPool(replayed.folder, 3, progress=False)
    assert caught.value.row == 2


def test_a_creation_that_ends_without_a_word_is_a_lost_connection(replayed: Replayed) -> None:
    replayed.server.answer("POST /v1/pools", chunked([b'{"event":"accepted","id":"x"}\n']))
    with pytest.raises(sandpool.ConnectionLostError, match="without a pool or an error"):
        RLPool(replayed.folder, 3, progress=False)


def test_a_server_that_is_not_there_is_named_with_where_it_came_from(replayed: Replayed) -> None:
    replayed.server.close()
    with pytest.raises(sandpool.NoServerError, match=r"(?s)No server answers at .*from SANDPOOL_URL.*sandpool up") as caught:
        RLPool(replayed.folder, 3, progress=False)
    assert replayed.server.url in str(caught.value)


def test_a_closed_pool_refuses_calls_and_closes_once(replayed: Replayed) -> None:
    with replayed.array_pool() as pool:
        assert not pool.closed
    pool.close()
    assert pool.closed
    assert len(replayed.server.of("DELETE /v1/pools/p1")) == 1
    for call in (lambda: pool.step([0] * 3), pool.reset, lambda: pool.call("x"), pool.status, lambda: pool.logs(0)):
        with pytest.raises(sandpool.PoolClosedError, match="was closed by this object"):
            call()


def test_a_pool_that_nobody_holds_is_closed(replayed: Replayed) -> None:
    replayed.array_pool()
    replayed.pools.clear()
    gc.collect()
    assert len(replayed.server.of("DELETE /v1/pools/p1")) == 1


def test_attach_takes_a_pool_over_and_leaves_it_open(replayed: Replayed) -> None:
    from batches import description

    from .conftest import ARRAY

    replayed.server.answer("GET /v1/pools/walkers", http_json(200, description(2, ARRAY, next_seq=42, name="walkers")))
    replayed.server.answer("GET /v1/pools/p1/observations", batch(None, np.array([[1, 2], [3, 4]], "<f4"), infos={"1": {"a": 1}}))
    replayed.on_step(batch(42, np.zeros((2, 2), "<f4"), [0, 0]))
    with RLPool.attach("walkers") as pool:
        assert (pool.id, pool.n, pool.name) == ("p1", 2, "walkers")
        assert pool.reset_infos == [{}, {"a": 1}]
        pool.step([0, 0])
    assert replayed.sequences() == [42]
    assert pool.closed
    assert replayed.server.of("DELETE /v1/pools/p1") == []


def test_status_and_logs(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.server.answer("GET /v1/pools/p1?memory=true", http_json(200, {"rows": [], "memory": {"method": "smaps_rollup"}}))
    replayed.server.answer("GET /v1/pools/p1", http_json(200, {"rows": [], "memory": None}))
    replayed.server.answer("GET /v1/pools/p1/logs?row=2", http(200, b"hello\n\x1b[2J\xff", "text/plain"))
    assert pool.status()["memory"] == {"method": "smaps_rollup"}
    assert pool.status(memory=False)["memory"] is None
    assert pool.logs(2) == "hello\n\\x1b[2J\\xff"
    assert pool.logs(2, raw=True) == b"hello\n\x1b[2J\xff"


def test_timing_summarises_what_the_server_and_the_client_measured(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.on_step(batch(1, np.ones((3, 2), "<f4"), [0] * 3))
    for _ in range(4):
        pool.step([0] * 3)
    assert pool.timing.worker_ms == 1.5
    assert pool.timing.roundtrip_ms > 0
    summary = pool.timing.summary()
    assert summary["batches"] == 4
    assert summary["worker_ms"] == {"p50": 1.5, "p95": 1.5, "p99": 1.5}
    assert summary["slowest_ms"] == {"p50": 0.5, "p95": 0.5, "p99": 0.5}


@pytest.mark.parametrize(
    "answer",
    [
        http(200, b"{}", "application/json"),
        batch(1, np.ones((2, 2), "<f4"), [0] * 3),
        batch(1, np.ones((3, 2), "<f8"), [0] * 3),
        batch(1, np.ones((3, 2), "<f4")),
        batch(1, np.ones((3, 2), "<f4"), [0] * 3, infos={"7": {}}),
        batch(1, np.ones((3, 2), "<f4"), [0] * 3, infos={"x": {}}),
    ],
)
def test_a_reply_that_does_not_fit_the_pool_is_refused(replayed: Replayed, answer: bytes) -> None:
    pool = replayed.array_pool()
    replayed.on_step(answer)
    with pytest.raises(sandpool.ReplyError):
        pool.step([0] * 3)


def test_the_key_is_not_sent_to_an_endpoint_without_a_token_of_its_own(replayed: Replayed) -> None:
    pool = replayed.array_pool(described={"endpoint": {"url": "http://127.0.0.1:1"}})
    replayed.on_step(batch(1, np.ones((3, 2), "<f4"), [0] * 3))
    pool.step([0] * 3)
    assert len(replayed.server.of("POST /v1/pools/p1/step")) == 1


def test_an_error_of_the_server_keeps_its_code_hint_and_details(replayed: Replayed) -> None:
    pool = replayed.array_pool()
    replayed.on_step(http_error(413, "body_too_large", "300 MiB", limit_bytes=5))
    with pytest.raises(sandpool.RequestRefusedError) as caught:
        pool.step([0] * 3)
    assert (caught.value.code, caught.value.hint, caught.value.details["limit_bytes"]) == ("body_too_large", "try again", 5)
