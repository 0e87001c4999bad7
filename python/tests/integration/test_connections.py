"""Broken connections, interrupts and second clients, against a running server: nothing is ever executed twice."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

import sandpool
from sandpool import RLPool

N = 2


@pytest.fixture
def pool(counter: Path, server: dict[str, str]) -> Iterator[RLPool]:
    with RLPool(counter, N, progress=False) as made:
        made.reset(seed=0)
        yield made


class CuttingProxy:
    """Passes bytes on; when told so, cuts the next connection that carries a step: before or after it reached the server."""

    def __init__(self, url: str) -> None:
        self._target = (urlsplit(url).hostname, urlsplit(url).port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cut: str | None = None
        self.cuts = 0
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._sockets += [client, server]
            threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
            threading.Thread(target=self._replies, args=(client, server), daemon=True).start()

    def close(self) -> None:
        # A blocked accept or recv wakes up by a shutdown, not by a close.
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        while data := self._receive(client):
            if self.cut == "before" and b"/step HTTP" in data:
                self._end(client, server)
                return
            server.sendall(data)

    def _replies(self, client: socket.socket, server: socket.socket) -> None:
        while data := self._receive(server):
            if self.cut == "after" and b"vnd.sandpool.batch" in data:
                self._end(client, server)
                return
            client.sendall(data)

    def _receive(self, source: socket.socket) -> bytes:
        try:
            return source.recv(65_536)
        except OSError:
            return b""

    def _end(self, client: socket.socket, server: socket.socket) -> None:
        self.cut = None
        self.cuts += 1
        client.shutdown(socket.SHUT_RDWR)
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy(server: dict[str, str]) -> Iterator[CuttingProxy]:
    made = CuttingProxy(server["url"])
    yield made
    made.close()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_cut_connection_never_steps_twice(pool: RLPool, proxy: CuttingProxy, moment: str) -> None:
    key = pool._server.address.key
    pool._channel._connection._address = sandpool.discovery.parse_url(f"http://127.0.0.1:{proxy.port}", key, "the test")
    pool._channel._connection._local_socket = None
    pool._channel._connection.close()
    for number in range(1, 7):
        if number % 2 == 0:
            proxy.cut = moment
        assert pool.step([1, 2]).obs[:, 1].tolist() == [number, number]
    assert proxy.cuts == 3
    assert pool.call("steps") == [6, 6]


def test_after_an_interrupt_the_pool_goes_on_with_the_interrupted_step_done_once(pool: RLPool) -> None:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        pool.step([93, 1])
    result = pool.step([1, 1])
    assert result.errors == {}
    np.testing.assert_array_equal(result.obs[:, 1], [2, 2])


# A socket that was interrupted while it was opened is closed by the collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_any_moment_neither_lose_a_batch_nor_lock_the_pool(pool: RLPool) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    moments = np.random.default_rng(0).uniform(1e-5, 1e-3, 500)
    interrupts = 0
    for moment in moments:
        try:
            signal.setitimer(signal.ITIMER_REAL, moment)
            pool.step([1, 1])
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            interrupts += 1
    signal.signal(signal.SIGALRM, before)
    assert interrupts > 0
    result = pool.step([1, 1])
    # Every batch but the reset was a step.
    assert result.obs[:, 1].tolist() == [pool.status(memory=False)["next_seq"] - 2] * N


def test_another_clients_batch_makes_the_pool_busy_and_then_out_of_sequence(pool: RLPool) -> None:
    with RLPool.attach(pool.id) as other:
        np.testing.assert_array_equal(other.reset(seed=5)[:, 0], [5, 6])
        slow = threading.Thread(target=other.step, args=([93, 93],))
        slow.start()
        wait_until_asleep(pool)
        with pytest.raises(sandpool.PoolBusyError):
            pool.step([1, 1])
        slow.join()
        with pytest.raises(sandpool.PoolSequenceError):
            pool.step([1, 1])
        assert pool.step([1, 1]).obs.tolist() == [[5, 2], [6, 2]]
    assert pool.step([1, 1]).obs.tolist() == [[5, 3], [6, 3]]


def test_a_client_never_gets_the_reply_of_anothers_request_of_the_same_number(pool: RLPool) -> None:
    with RLPool.attach(pool.id) as other, RLPool.attach(pool.id) as third:
        assert other.step([1, 2]).rewards.tolist() == [1, 2]
        for stale in (lambda: pool.step([3, 4]), lambda: third.step([1, 2])):
            with pytest.raises(sandpool.PoolSequenceError):
                stale()
        assert pool.call("steps") == [1, 1]


def test_a_batch_that_is_refused_leaves_the_pool_as_it_was(pool: RLPool) -> None:
    for refused in ([10**500, 1], [1, 10**500]):
        with pytest.raises(sandpool.RequestRefusedError, match="501 digits"):
            pool.step(refused)
    with pytest.raises(sandpool.RequestRefusedError, match="reset"):
        pool.call("reset")
    assert pool.step([1, 1]).obs[:, 1].tolist() == [1, 1]


def test_a_forked_process_is_a_client_of_its_own_and_closes_nothing(pool: RLPool) -> None:
    assert pool.status(memory=False)["next_seq"] == 2
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with pool:
                states = [pool.status(memory=False)["id"] for _ in range(50)]
                os.write(theirs, f"{states == [pool.id] * 50} {pool.step([1, 1]).obs[:, 1].tolist()}".encode())
        finally:
            os._exit(0)
    os.close(theirs)
    assert [pool.status(memory=False)["id"] for _ in range(50)] == [pool.id] * 50
    os.waitpid(child, 0)
    assert os.read(ours, 100) == b"True [1.0, 1.0]"
    os.close(ours)
    with pytest.raises(sandpool.PoolSequenceError):
        pool.step([1, 1])
    assert pool.step([1, 1]).obs[:, 1].tolist() == [2, 2]


def wait_until_asleep(pool: RLPool) -> None:
    """Logs are answered during a batch too."""
    for _ in range(10_000):
        if "asleep" in pool.logs(0):
            return
    pytest.fail("the environment never began its step")


def test_a_pool_closed_by_another_client_says_so(counter: Path, server: dict[str, str]) -> None:
    with RLPool(counter, 1, name="shared", progress=False) as pool:
        RLPool.attach("shared").close()
        with pytest.raises(sandpool.PoolLostError) as caught:
            pool.step([1])
        assert caught.value.code == "pool_closed"


def test_a_bar_is_shown_on_a_terminal_and_nothing_elsewhere(counter: Path, server: dict[str, str]) -> None:
    program = textwrap.dedent(f"""
        from sandpool import RLPool
        RLPool({str(counter)!r}, 2).close()
    """)
    quiet = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert quiet.stderr + quiet.stdout == b""
    ours, theirs = pty.openpty()
    shown = subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 65_536):
            text += piece
    except OSError:
        # Linux reports the end of a terminal as an error.
        pass
    os.close(ours)
    assert shown.wait() == 0
    assert b"Starting environments" in text
