from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replay_server import ReplayServer, chunked, http
from sandpool import ReplyError
from sandpool.discovery import parse_url
from sandpool.transport.chunks import BrokenConnectionError
from sandpool.transport.connection import Connection

ROUTE = "POST /x"


def send(connection: Connection, *body: bytes, timeout_s: float = 10.0) -> tuple[int, bytes]:
    head = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % sum(map(len, body))
    reply = connection.exchange(head, list(body), timeout_s)
    return reply.status, reply.body.tobytes()


@pytest.fixture
def connection(replay: ReplayServer) -> Iterator[Connection]:
    opened = Connection(parse_url(replay.url, "", "the test"))
    yield opened
    opened.close()


@pytest.mark.parametrize("size_bytes", [0, 1, 65_536 - 60, 70_000, 5_000_000])
def test_bodies_of_any_size_arrive_whole_over_one_connection(replay: ReplayServer, connection: Connection, size_bytes: int) -> None:
    data = os.urandom(size_bytes)
    replay.answer(ROUTE, lambda request: http(200, request.body))
    for _ in range(3):
        assert send(connection, b"prefix", data) == (200, b"prefix" + data)
    assert {request.connection for request in replay.requests} == {1}


@pytest.mark.parametrize("pieces", [[], [b"a"], [b"x" * 100_000, b"\r\n", b"y" * 7]])
def test_a_chunked_reply_is_read_whole_and_the_connection_goes_on(
    replay: ReplayServer, connection: Connection, pieces: list[bytes]
) -> None:
    replay.answer(ROUTE, chunked(pieces, status=200), http(200, b"next"))
    assert send(connection) == (200, b"".join(pieces))
    assert send(connection) == (200, b"next")
    assert replay.requests[1].connection == 1


def test_an_interim_reply_is_skipped(replay: ReplayServer, connection: Connection) -> None:
    replay.answer(ROUTE, b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + http(200, b"final"))
    assert send(connection) == (200, b"final")


def test_after_connection_close_a_new_connection_is_used(replay: ReplayServer, connection: Connection) -> None:
    replay.answer(ROUTE, http(200, b"a", extra="Connection: close\r\n"), http(200, b"b"))
    assert send(connection) == (200, b"a")
    assert send(connection) == (200, b"b")
    assert [request.connection for request in replay.requests] == [1, 2]


@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"])
def test_a_connection_that_ends_early_is_broken_and_the_next_exchange_opens_another(
    replay: ReplayServer, connection: Connection, answer: bytes | None
) -> None:
    def half(_: object) -> bytes | None:
        return answer

    replay.answer(ROUTE, half, http(200, b"whole"))
    if answer is not None:
        # The server's half answer is followed by the end of the connection.
        threading.Timer(0.2, lambda: [one.shutdown(socket.SHUT_RDWR) for one in replay._connections[:1]]).start()
    with pytest.raises(BrokenConnectionError):
        send(connection)
    assert send(connection) == (200, b"whole")


def test_a_silent_server_is_a_timeout_and_its_late_reply_is_never_taken_for_the_next(replay: ReplayServer, connection: Connection) -> None:
    replay.answer(ROUTE, b"", http(200, b"second"))
    with pytest.raises(TimeoutError):
        send(connection, timeout_s=0.1)
    assert send(connection) == (200, b"second")


@pytest.mark.parametrize(
    "answer",
    [
        b"220 smtp ready\r\n\r\n",
        http(200, b"zz", extra="Content-Encoding: gzip\r\n"),
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ntoo long",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000,
    ],
)
def test_what_is_not_the_servers_http_is_refused(replay: ReplayServer, connection: Connection, answer: bytes) -> None:
    replay.answer(ROUTE, answer, http(200, b"ok"))
    with pytest.raises(ReplyError):
        send(connection)
    assert send(connection) == (200, b"ok")


def test_a_server_that_refuses_a_large_body_early_is_heard(connection: Connection) -> None:
    with serve_once(
        lambda peer: (peer.recv(1000), peer.sendall(http(413, b"too large", extra="Connection: close\r\n")), peer.shutdown(socket.SHUT_WR))
    ) as port:
        refused = Connection(parse_url(f"http://127.0.0.1:{port}", "", "the test"))
        # The kernel may throw the answer away with the connection; then the caller repeats the request.
        with contextlib.suppress(BrokenConnectionError):
            assert send(refused, bytes(30_000_000))[0] == 413
        refused.close()


def test_a_refused_connection_is_a_connection_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionError):
        send(Connection(parse_url(f"http://127.0.0.1:{port}", "", "the test")))


def test_a_forked_child_opens_its_own_connection(replay: ReplayServer, connection: Connection) -> None:
    replay.answer(ROUTE, http(200, b"a"))
    send(connection)
    child = os.fork()
    if child == 0:
        os._exit(0 if send(connection) == (200, b"a") else 1)
    assert os.waitpid(child, 0)[1] == 0
    send(connection)
    assert [request.connection for request in replay.requests] == [1, 2, 1]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", folder / "key.pem",
         "-addext", "subjectAltName=DNS:localhost", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


def test_tls_needs_a_certificate_that_is_trusted_and_for_the_host(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")

    def answer(peer: socket.socket) -> None:
        with contextlib.suppress(OSError), context.wrap_socket(peer, server_side=True) as secure:
            secure.recv(1000)
            secure.sendall(http(200, b"secret"))

    with serve_once(answer) as port, pytest.raises(OSError, match="certificate"):
        send(Connection(parse_url(f"https://localhost:{port}", "", "the test")))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    with serve_once(answer) as port, pytest.raises(OSError, match="127"):
        send(Connection(parse_url(f"https://127.0.0.1:{port}", "", "the test")))
    with serve_once(answer) as port:
        trusted = Connection(parse_url(f"https://localhost:{port}", "", "the test"))
        assert send(trusted) == (200, b"secret")
        trusted.close()


@contextlib.contextmanager
def serve_once(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                peer, _ = listener.accept()
                with peer:
                    answer(peer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)
