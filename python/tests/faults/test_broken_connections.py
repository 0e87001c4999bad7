"""A connection broken between request and reply is retried, and the environments step once."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from sandpool import RLPool


class BreakingProxy:
    """Forwards bytes to the server; when armed, it lets the next request through and cuts the connection before its reply."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target, self.armed, self.cuts = target, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(10)
        self.listener.close()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.threads.append(threading.Thread(target=self.forward, args=(client,)))
                self.threads[-1].start()

    def forward(self, client: socket.socket) -> None:
        own, theirs = self.url.removeprefix("http://").encode(), f"{self.target[0]}:{self.target[1]}".encode()
        with client, socket.create_connection(self.target) as upstream, contextlib.suppress(OSError):
            while True:
                for ready in select.select([client, upstream], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    if ready is client:
                        upstream.sendall(data.replace(own, theirs))
                    elif self.armed > 0:
                        self.armed -= 1
                        self.cuts += 1
                        return
                    else:
                        client.sendall(data)


@pytest.fixture
def proxy(server: Any) -> Iterator[BreakingProxy]:
    address = urlsplit(server["url"])
    assert address.hostname and address.port
    proxy = BreakingProxy((address.hostname, address.port))
    yield proxy
    proxy.close()


def test_a_broken_connection_is_retried_and_steps_once(
    proxy: BreakingProxy, environment: Callable[[str], Path], server: dict[str, str]
) -> None:
    folder = environment("prints_everywhere")
    with (
        RLPool(folder, 8, seed=3, progress=False) as control,
        RLPool(folder, 8, seed=3, progress=False, url=proxy.url, api_key=server["key"]) as pool,
    ):
        for step in range(6):
            if step in (2, 4):
                proxy.armed = 1
            result, expected = pool.step([step % 2] * 8), control.step([step % 2] * 8)
            np.testing.assert_array_equal(result[0], expected[0])
            assert [info["steps"] for info in result[3]] == [step + 1] * 8
        assert proxy.cuts == 2
        proxy.armed = 1
        np.testing.assert_array_equal(pool.reset(seed=9), control.reset(seed=9))
        assert proxy.cuts == 3
