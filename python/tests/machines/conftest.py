from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from sandpool import Machine, Sandpool, SandpoolError

# What a test leaves behind after a failure goes by itself.
LIFETIME_S = 900.0


@pytest.fixture(scope="session")
def client(running_server: dict[str, str]) -> Iterator[Sandpool]:
    """A client of the running server; all machines are gone at its end, for the server leaves them running."""
    with Sandpool(running_server["url"], running_server["key"]) as made:
        yield made
        for machine in made.machines.list():
            with contextlib.suppress(SandpoolError):
                made.machines.delete(machine)


@pytest.fixture(scope="session")
def box(client: Sandpool) -> Machine:
    """A machine that tests share; what they do in it does not concern the others."""
    return client.machines.create(new_name(), isolated=True, lifetime=LIFETIME_S, progress=False)


def new_name() -> str:
    """Return a name that no other test has."""
    return f"t-{secrets.token_hex(6)}"


class Cutter:
    """Passes connections on to a server, and cuts them all when told so."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self.connections = 0
        self.passed_bytes = 0
        self.cut_after_bytes: int | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._sockets += [client, server]
            self.connections += 1
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        asked = f"Host: {urlsplit(self.url).netloc}".encode()
        allowed = f"Host: {self._target[0]}:{self._target[1]}".encode()
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if not is_request:
                    self.passed_bytes += len(data)
                    if self.cut_after_bytes is not None and self.passed_bytes > self.cut_after_bytes:
                        self.cut_after_bytes = None
                        self.cut()
                        return
                target.sendall(data.replace(asked, allowed) if is_request else data)
            target.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def cutter(running_server: dict[str, str]) -> Iterator[Cutter]:
    made = Cutter(running_server["url"])
    yield made
    made.close()


@pytest.fixture
def through_cutter(cutter: Cutter, running_server: dict[str, str]) -> Iterator[Sandpool]:
    """A client whose connections can be cut."""
    with Sandpool(cutter.url, running_server["key"]) as made:
        yield made
