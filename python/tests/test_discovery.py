from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandpool import InvalidValueError, NoServerError
from sandpool.discovery import find_server, parse_url


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SANDPOOL_URL", raising=False)
    monkeypatch.delenv("SANDPOOL_API_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def store(tmp_path: Path, text: str) -> None:
    (tmp_path / "sandpool").mkdir()
    (tmp_path / "sandpool" / "credentials.json").write_text(text)


def test_with_nothing_configured_the_error_says_what_was_looked_at(tmp_path: Path) -> None:
    with pytest.raises(NoServerError) as caught:
        find_server()
    assert caught.value.code == "no_server_configured"
    for part in ("url=", "SANDPOOL_URL", str(tmp_path / "sandpool" / "credentials.json"), "sandpool up"):
        assert part in str(caught.value)


def test_the_environment_comes_before_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store(tmp_path, json.dumps({"url": "http://file.example:1", "key": "file-key"}))
    monkeypatch.setenv("SANDPOOL_URL", "http://env.example:2/")
    monkeypatch.setenv("SANDPOOL_API_KEY", "env-key")
    address = find_server()
    assert (address.url, address.key, address.source) == ("http://env.example:2", "env-key", "SANDPOOL_URL")


def test_the_file_is_used_when_nothing_else_is_given(tmp_path: Path) -> None:
    store(tmp_path, json.dumps({"url": "http://127.0.0.1:4000", "key": "file-key"}))
    address = find_server()
    assert (address.url, address.key) == ("http://127.0.0.1:4000", "file-key")
    assert "credentials.json" in address.source


def test_the_files_key_goes_to_the_same_server_by_argument(tmp_path: Path) -> None:
    store(tmp_path, json.dumps({"url": "http://127.0.0.1:4000", "key": "file-key"}))
    assert find_server("http://127.0.0.1:4000/").key == "file-key"


def test_a_file_without_url_says_that_no_server_runs(tmp_path: Path) -> None:
    store(tmp_path, json.dumps({"key": "file-key"}))
    with pytest.raises(NoServerError, match="No server is running") as caught:
        find_server()
    assert caught.value.code == "no_server_configured"


@pytest.mark.parametrize("url", ["http://127.0.0.1:4001", "https://127.0.0.1:4000", "http://evil.example:4000"])
def test_the_files_key_goes_nowhere_else(tmp_path: Path, url: str) -> None:
    store(tmp_path, json.dumps({"url": "http://127.0.0.1:4000", "key": "file-key"}))
    with pytest.raises(NoServerError, match="There is no key") as caught:
        find_server(url)
    assert caught.value.code == "no_key"
    assert "file-key" not in str(caught.value)


def test_the_environments_key_does_not_go_to_another_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDPOOL_URL", "http://env.example:2")
    monkeypatch.setenv("SANDPOOL_API_KEY", "env-key")
    with pytest.raises(NoServerError):
        find_server("http://other.example:2")


@pytest.mark.parametrize("text", ["", "[]", '{"url": 3, "key": "x"}', '{"url": "http://a"}'])
def test_a_file_out_of_form_is_named(tmp_path: Path, text: str) -> None:
    store(tmp_path, text)
    with pytest.raises(NoServerError, match=r"credentials\.json") as caught:
        find_server()
    assert caught.value.code == "bad_credentials_file"


@pytest.mark.parametrize("url", ["ftp://a", "127.0.0.1:80", "http://", "http://user@a", "http://a:99999", "http://a?x=1", "http://[::1"])
def test_what_is_no_servers_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidValueError, match="URL"):
        find_server(url, "key")


@pytest.mark.parametrize("key", ["a\r\nX-Evil: 1", "a b", "kéy"])
def test_a_key_cannot_smuggle_headers(key: str) -> None:
    with pytest.raises(InvalidValueError, match="API key") as caught:
        find_server("http://a", key)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "authority"), [("http://a", "a"), ("http://a:80", "a"), ("https://a:8443/x/", "a:8443"), ("http://[::1]:5", "[::1]:5")]
)
def test_the_host_header_has_the_port_unless_it_is_the_schemes_own(url: str, authority: str) -> None:
    assert parse_url(url, "k", "a test").authority == authority
