"""One server, with its machines, images and pools."""

from __future__ import annotations

from types import TracebackType

from sandpool.client.pools import Pools
from sandpool.discovery import find_server
from sandpool.images.images import Images
from sandpool.machines.machines import Machines
from sandpool.transport.calls import Calls
from sandpool.transport.server import Server

# One exec holds one connection: so many at once keep theirs for the next one.
_KEPT_CONNECTIONS = 64


class Sandpool:
    """A server and all it has; plain data comes back, and nothing is held open but idle connections.

    Args:
        url: of the server; None: SANDPOOL_URL, else what `sandpool up` wrote.
        api_key: its key; None: SANDPOOL_API_KEY, else what stands beside that URL.

    Attributes:
        machines: long-lived sandboxes, their programs, files and ports.
        images: what machines start from.
        pools: the pools that live.
        calls: requests that no method here has.

    Example:
        >>> with Sandpool() as sandpool:  # doctest: +SKIP
        ...     sandpool.machines.create("box")
        ...     print(sandpool.machines.exec("box", ["uname", "-a"]).stdout)
        ...     sandpool.machines.delete("box")
    """

    def __init__(self, url: str | None = None, api_key: str | None = None) -> None:
        self._server = Server(find_server(url, api_key), kept_connections=_KEPT_CONNECTIONS)
        self.calls = Calls(self._server)
        self.machines = Machines(self.calls)
        self.images = Images(self.calls)
        self.pools = Pools(self.calls)

    @property
    def url(self) -> str:
        """The server's URL."""
        return self._server.address.url

    def close(self) -> None:
        """Close the idle connections. Machines live on."""
        self._server.close()

    def __enter__(self) -> Sandpool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Sandpool at {self.url}>"
