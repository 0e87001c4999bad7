"""RLPool's send and recv against a running server, with real environments."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import sandpool
from sandpool import RLPool

from .environments import WALK

N = 8


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walk")
    (folder / "env.py").write_text(WALK)
    return folder


@pytest.fixture
def pool(walk: Path, server: dict[str, str]) -> Iterator[RLPool]:
    with RLPool(walk, N, seed=7, shards=2, step_timeout=5, progress=False) as made:
        yield made


def test_sending_and_receiving_equals_lock_step(pool: RLPool, walk: Path) -> None:
    actions = np.random.default_rng(0).integers(0, 4, (40, N))
    with RLPool(walk, N, seed=7, shards=1, progress=False) as lockstep:
        expected = np.stack([lockstep.reset(), *[lockstep.step(row).obs for row in actions]])
    received = np.full_like(expected, -1)
    steps = np.full(N, -1)
    pool.send_reset()
    while len(pool.rows_out):
        result = pool.recv()
        steps[result.index] += 1
        received[steps[result.index], result.index] = result.obs
        going = result.index[steps[result.index] < 40]
        pool.send(actions[steps[going], going], where=going)
    np.testing.assert_array_equal(received, expected)
    assert pool.step([1] * N).obs[:, 1].tolist() == [41] * N


def test_a_slow_row_never_holds_the_others(pool: RLPool) -> None:
    pool.reset()
    pool.send([93] + [1] * (N - 1))
    fast = 0
    while 0 not in (result := pool.recv()).index:
        fast += len(result.index)
        pool.send([1] * len(result.index), where=result.index)
    assert fast >= 3 * (N - 1)


@pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")
def test_failed_rows_come_back_by_a_reset_without_holding_anybody(pool: RLPool) -> None:
    pool.reset(seed=20)
    pool.send([90, 91] + [1] * (N - 2))
    result = pool.recv(N)
    assert {row: error["kind"] for row, error in result.errors.items()} == {0: "exception", 1: "crash"}
    place = {row: place for place, row in enumerate(result.index.tolist())}
    assert result.obs[place[0]].tolist() == [20, 0, 0]
    assert (result.terminated[place[0]], result.truncated[place[0]]) == (True, False)
    assert (result.terminated[place[1]], result.truncated[place[1]]) == (False, True)
    pool.send([1], where=[0])
    assert pool.recv().errors[0]["repeated"] is True
    pool.send_reset(where=[1, 0], seed=[51, 50], options=[{"task": "b"}, {"task": "a"}])
    result = pool.recv(2)
    assert sorted(result.obs[:, 0].tolist()) == [50, 51]
    assert [pool.reset_infos[row] for row in (0, 1)] == [{"task": "a"}, {"task": "b"}]
    assert pool.step([1] * N).errors == {}


def test_autoreset_is_in_the_results(walk: Path, server: dict[str, str]) -> None:
    with RLPool(walk, 2, seed=7, autoreset="same_step", progress=False) as pool:
        pool.send_reset()
        pool.recv(2)
        for _ in range(9):
            pool.send([1, 1])
            assert not pool.recv(2).dones.any()
        pool.send([1, 1])
        result = pool.recv(2)
        assert result.terminated.all()
        assert result.obs[:, 1].tolist() == [0, 0]
        assert [info["final_obs"][1:] for info in result.infos] == [[10, 10]] * 2


def test_a_full_reset_with_a_whole_number_is_the_pools_new_seed(pool: RLPool) -> None:
    expected = [pool.reset(seed=100), pool.reset()]
    pool.send_reset(seed=100)
    pool.recv(N)
    pool.send_reset()
    result = pool.recv(N)
    np.testing.assert_array_equal(result.obs[np.argsort(result.index)], expected[1])


def test_what_the_pool_refuses_is_raised_and_sent_to_nobody(pool: RLPool) -> None:
    pool.reset()
    pool.send([10**500] + [1] * (N - 1))
    with pytest.raises(sandpool.RequestRefusedError, match="501 digits"):
        pool.recv(N)
    assert pool.rows_out.tolist() == []
    assert pool.call("count") == [0] * N


@pytest.mark.filterwarnings("ignore::sandpool.SandpoolWarning")
def test_the_stream_and_batches_of_two_clients_refuse_each_other(pool: RLPool) -> None:
    with RLPool.attach(pool.id) as other:
        pool.send([92] + [1] * (N - 1))
        # What is back was out, so the first row, which hangs until its deadline, still is.
        pool.recv(N - 1)
        with pytest.raises(sandpool.PoolBusyError):
            other.step([1] * N)
        other.send([1] * (N - 1), where=range(1, N))
        with pytest.raises(sandpool.PoolBusyError):
            other.recv()
        pool.send([1] * (N - 1), where=range(1, N))
        assert pool.recv(N - 1).obs[:, 1].tolist() == [2] * (N - 1)


def test_a_pool_that_another_client_closes_says_so(pool: RLPool) -> None:
    pool.send([93] * N)
    RLPool.attach(pool.id).close()
    with pytest.raises(sandpool.PoolLostError) as caught:
        pool.recv(N)
    assert caught.value.code == "pool_closed"


class CuttingProxy:
    """Passes bytes on and cuts each connection after a random number of them, in either direction."""

    def __init__(self, url: str, path: Path) -> None:
        self._target = (urlsplit(url).hostname, urlsplit(url).port)
        self._random = np.random.default_rng(0)
        # A unix socket, so that what is sent names the server's own host.
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.connections = 0
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                for source, sink, most in ((client, server, 6_000), (server, client, 40_000)):
                    left = int(self._random.integers(300, most))
                    threading.Thread(target=self._pass, args=(source, sink, left), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, left: int) -> None:
        with contextlib.suppress(OSError):
            while left > 0 and (data := source.recv(min(left, 4_096))):
                sink.sendall(data)
                left -= len(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def test_a_connection_cut_after_any_byte_neither_loses_nor_repeats_a_step(pool: RLPool, server: dict[str, str], tmp_path: Path) -> None:
    proxy = CuttingProxy(server["url"], tmp_path / "proxy")
    pool.reset()
    pool._endpoint = pool._endpoint._replace(local_socket=str(tmp_path / "proxy"))
    taken = np.zeros(N, int)
    pool.send([1] * N)
    while len(pool.rows_out):
        result = pool.recv()
        taken[result.index] += 1
        assert result.obs[:, 1].tolist() == taken[result.index].tolist()
        going = result.index[taken[result.index] < 150]
        pool.send(np.ones(len(going), int), where=going)
    proxy.close()
    assert taken.tolist() == pool.call("count") == [150] * N
    assert proxy.connections > 5
