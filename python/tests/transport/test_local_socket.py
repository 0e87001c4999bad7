"""The server's unix socket is used only where it is certainly the server's own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandpool.discovery import parse_url
from sandpool.transport.local_socket import connect_locally, local_socket

URL = "http://127.0.0.1:7070"


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield str(path)


def endpoint(path: object, url: str = URL) -> dict[str, Any]:
    return {"endpoint": {"url": url, "socket": path}}


def test_the_socket_of_a_server_on_loopback_is_used(listening: str) -> None:
    assert local_socket(parse_url(URL, "key", "a test"), endpoint(listening)) == listening
    connection = connect_locally(listening)
    assert connection is not None
    connection.close()


@pytest.mark.parametrize(
    ("reached", "announced"),
    [
        ("http://127.0.0.1:9999", URL),  # a proxy or a forwarded port
        ("http://192.0.2.1:7070", "http://192.0.2.1:7070"),  # another host
        ("https://127.0.0.1:7070", "https://127.0.0.1:7070"),
        ("http://127.0.0.1:7070/prefix", URL),
    ],
)
def test_a_server_that_is_reached_otherwise_is_spoken_to_as_it_was_reached(listening: str, reached: str, announced: str) -> None:
    assert local_socket(parse_url(reached, "key", "a test"), endpoint(listening, announced)) is None


@pytest.mark.parametrize("path", [None, 7, "/nowhere/api.sock", "nul\0byte", ""])
def test_what_is_no_socket_is_not_used(path: object) -> None:
    assert local_socket(parse_url(URL, "key", "a test"), endpoint(path)) is None


def test_a_plain_file_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "api.sock").write_text("")
    assert local_socket(parse_url(URL, "key", "a test"), endpoint(str(tmp_path / "api.sock"))) is None


def test_a_socket_without_a_listener_leaves_the_word_to_tcp(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
    assert connect_locally(str(path)) is None
