"""A connection broken between request and reply is retried, and the environments step once."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from sandpool import RLPool, Sandpool, SandpoolError


class BreakingProxy:
    """Forwards bytes to the server; when armed, it lets the next request through and cuts the connection before its reply."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target, self.armed, self.cuts = target, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                upstream = socket.create_connection(self.target)
                threading.Thread(target=self.requests, args=(client, upstream), daemon=True).start()
                threading.Thread(target=self.replies, args=(client, upstream), daemon=True).start()

    def requests(self, client: socket.socket, upstream: socket.socket) -> None:
        own, theirs = self.url.removeprefix("http://").encode(), f"{self.target[0]}:{self.target[1]}".encode()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                upstream.sendall(data.replace(own, theirs))
            upstream.shutdown(socket.SHUT_WR)

    def replies(self, client: socket.socket, upstream: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := upstream.recv(65536):
                if self.armed > 0:
                    self.armed -= 1
                    self.cuts += 1
                    break
                client.sendall(data)
        client.close()
        upstream.close()


@pytest.fixture
def proxy(server: Any) -> Iterator[BreakingProxy]:
    address = urlsplit(os.environ["SANDPOOL_URL"])
    assert address.hostname and address.port
    proxy = BreakingProxy((address.hostname, address.port))
    yield proxy
    proxy.listener.close()


def test_a_broken_connection_is_retried_and_steps_once(
    proxy: BreakingProxy, environment: Callable[[str], Path], server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = environment("prints_everywhere")
    with (
        RLPool(folder, 8, seed=3, progress=False) as control,
        RLPool(folder, 8, seed=3, progress=False, url=proxy.url, api_key=os.environ["SANDPOOL_API_KEY"]) as pool,
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
