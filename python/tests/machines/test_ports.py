from __future__ import annotations

from urllib.parse import urlsplit

import pytest
import urllib3

import sandpool
from sandpool import Machine, Sandpool

PORT = 8123


@pytest.fixture(scope="module")
def listening(client: Sandpool, box: Machine) -> Machine:
    client.machines.files.write(box, "/srv/page/hello.txt", "hello")
    client.machines.start_exec(box, ["python3", "-m", "http.server", str(PORT), "--directory", "/srv/page"])
    return client.machines.wait_until_ready(box, PORT, timeout=60)


def get(url: str, **headers: str) -> tuple[int, bytes]:
    """GET as a browser does for names below localhost, which the C library does not know."""
    parts = urlsplit(url)
    with urllib3.HTTPConnectionPool("127.0.0.1", parts.port) as pool:
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        reply = pool.request("GET", path, headers={"Host": parts.netloc, **headers}, redirect=False)
        if reply.status in (301, 302, 303, 307, 308):
            path = urlsplit(reply.headers["Location"]).path
            cookie = reply.headers["Set-Cookie"].partition(";")[0]
            reply = pool.request("GET", path, headers={"Host": parts.netloc, "Cookie": cookie}, redirect=False)
        return reply.status, reply.data


def test_a_port_answers_at_its_address_to_who_has_the_key(client: Sandpool, listening: Machine, running_server: dict[str, str]) -> None:
    url = client.machines.url(listening, PORT) + "hello.txt"
    assert url.startswith(running_server["url"])
    assert get(url, Authorization=f"Bearer {running_server['key']}") == (200, b"hello")
    assert get(url)[0] == 401
    entry = next(entry for entry in client.machines.ports(listening) if entry.port == PORT)
    assert client.machines.url(listening, PORT) == entry.path_url
    assert client.machines.url(listening, PORT, form="host") == entry.url


def test_a_link_needs_no_key_until_it_is_revoked(client: Sandpool, listening: Machine) -> None:
    link = client.machines.link(listening, PORT, expires=60)
    parts = urlsplit(link.url)
    url = parts._replace(path="/hello.txt").geturl()
    assert get(url) == (200, b"hello")
    client.machines.revoke_links(listening, PORT)
    assert get(url)[0] == 403


def test_a_public_port_needs_no_key(client: Sandpool, listening: Machine) -> None:
    url = client.machines.url(listening, PORT, form="host") + "hello.txt"
    assert get(url)[0] == 401
    assert client.machines.set_public(listening, PORT).public is True
    assert get(url) == (200, b"hello")
    assert client.machines.set_public(listening, PORT, False).public is False
    assert get(url)[0] == 401


def test_waiting_for_a_port_where_nobody_listens_ends_with_what_was_awaited(client: Sandpool, box: Machine) -> None:
    with pytest.raises(sandpool.ServerTimeoutError, match="nothing listens on port 9"):
        client.machines.wait_until_ready(box, 9, timeout=0.3)
    client.machines.set_public(box, 9)
    with pytest.raises(sandpool.ServerTimeoutError, match="nothing listens on port 9"):
        client.machines.wait_until_ready(box, 9, timeout=0.3)
    client.machines.set_public(box, 9, False)
    for wrong, kind in ((0, sandpool.InvalidValueError), (65536, sandpool.InvalidValueError), ("80", sandpool.InvalidTypeError)):
        with pytest.raises(kind):
            client.machines.url(box, wrong)  # type: ignore[arg-type]
