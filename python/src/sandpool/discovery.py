"""Which server to talk to, and with which key."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit

from sandpool.errors import InvalidValueError, NoServerError

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class ServerAddress:
    """A server's URL in parts, its key, and where both came from."""

    scheme: str
    host: str
    port: int
    path: str
    key: str
    source: str

    @property
    def url(self) -> str:
        """The URL, without a slash at the end."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def authority(self) -> str:
        """Host and port as they stand in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """What must be equal for a key to be sent."""
        return self.scheme, self.host, self.port


def find_server(url: str | None = None, api_key: str | None = None) -> ServerAddress:
    """Find the server: the arguments, else SANDPOOL_URL and SANDPOOL_API_KEY, else the credentials file.

    The key in the credentials file is only ever used for the URL that stands beside it.
    """
    environment_url = os.environ.get("SANDPOOL_URL") or None
    if url is not None:
        return _with_key(url, api_key, "the argument url=", environment_url)
    if environment_url is not None:
        return _with_key(environment_url, api_key, "SANDPOOL_URL", environment_url)
    path = credentials_path()
    stored = _read_credentials(path)
    if stored is None:
        raise NoServerError(
            f"No server is configured: no url= was given, SANDPOOL_URL is not set, and there is no file {path}.",
            hint="Start one with `sandpool up`, which writes that file, or set SANDPOOL_URL and SANDPOOL_API_KEY.",
            code="no_server_configured",
        )
    if stored["url"] is None:
        raise NoServerError(
            f"No server is running: no url= was given, SANDPOOL_URL is not set, and the file {path} holds a key but no URL.",
            code="no_server_configured",
            hint="Start one with `sandpool up`, which writes its URL there.",
        )
    return parse_url(stored["url"], api_key or stored["key"], f"the file {path}")


def credentials_path() -> Path:
    """Path of the credentials file that `sandpool up` writes."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "sandpool" / "credentials.json"


def parse_url(url: str, key: str, source: str) -> ServerAddress:
    """Split a server's URL; refuses what is not plain http or https."""
    if not isinstance(url, str):
        raise InvalidValueError(f"The server's URL, from {source}, is {url!r:.100}; expected text such as http://127.0.0.1:8080.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidValueError(f"The server's URL {url!r}, from {source}, is not a URL: {error}.") from error
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise InvalidValueError(
            f"The server's URL {url!r}, from {source}, cannot be used; expected http:// or https://, a host, perhaps a port and a path.",
            hint="Give the key as api_key= or SANDPOOL_API_KEY, not in the URL.",
        )
    if not isinstance(key, str):
        raise InvalidValueError(f"The API key is of type {type(key).__name__}; expected text.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidValueError("The API key has characters that no key has; expected printable ASCII without spaces.")
    return ServerAddress(parts.scheme, parts.hostname, port or _DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"), key, source)


def _with_key(url: str, api_key: str | None, source: str, environment_url: str | None) -> ServerAddress:
    address = parse_url(url, api_key or "", source)
    if address.key:
        return address
    key = os.environ.get("SANDPOOL_API_KEY") or None
    if key is not None and (environment_url is None or _same_origin(environment_url, address)):
        return parse_url(url, key, source)
    stored = _read_credentials(credentials_path())
    if stored is not None and stored["url"] is not None and _same_origin(stored["url"], address):
        return parse_url(url, stored["key"], source)
    raise NoServerError(
        f"There is no key for the server {address.url} (from {source}): no api_key= was given, SANDPOOL_API_KEY is not set for it, "
        f"and {credentials_path()} holds none for that URL.",
        code="no_key",
        hint="Set SANDPOOL_API_KEY, or make a key with `sandpool keys create`.",
    )


def _same_origin(url: str, address: ServerAddress) -> bool:
    try:
        return parse_url(url, "", "a stored URL").origin == address.origin
    except InvalidValueError:
        return False


class _Credentials(TypedDict):
    url: str | None
    key: str


def _read_credentials(path: Path) -> _Credentials | None:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise NoServerError(f"The credentials file {path} cannot be read: {error.strerror}.", code="bad_credentials_file") from error
    try:
        stored = json.loads(text)
    except ValueError:
        stored = None
    # The server takes its URL out of the file when it stops and leaves the key.
    if not isinstance(stored, dict) or not isinstance(stored.get("key"), str) or not isinstance(stored.get("url"), str | None):
        raise NoServerError(
            f'The credentials file {path} does not hold what is expected: a JSON object {{"url": text, "key": text}}.',
            code="bad_credentials_file",
            hint="Remove it and run `sandpool up`, which writes it anew.",
        )
    return {"url": stored.get("url"), "key": stored["key"]}
