"""One server for asyncio."""

from __future__ import annotations

from types import TracebackType

from sandpool.aio.machines import AsyncImages, AsyncMachines
from sandpool.aio.threads import Threaded, Threads, awaited
from sandpool.client.pools import Pools
from sandpool.client.sandpool import Sandpool


class AsyncPools(Threaded):
    """Calls about pools; see `Pools`."""

    list = awaited(Pools.list)


class AsyncSandpool:
    """A server and all it has, awaited; see `Sandpool`.

    Args:
        url: of the server; None: SANDPOOL_URL, else what `sandpool up` wrote.
        api_key: its key.

    Example:
        >>> async with AsyncSandpool() as sandpool:  # doctest: +SKIP
        ...     results = await asyncio.gather(*(sandpool.machines.exec("box", ["make", target]) for target in targets))
    """

    def __init__(self, url: str | None = None, api_key: str | None = None) -> None:
        self._client = Sandpool(url, api_key)
        self._threads = Threads()
        self.machines = AsyncMachines(self._client.machines, self._threads)
        self.images = AsyncImages(self._client.images, self._threads)
        self.pools = AsyncPools(self._client.pools, self._threads)

    @property
    def url(self) -> str:
        """The server's URL."""
        return self._client.url

    async def close(self) -> None:
        """Close the idle connections. Machines live on."""
        await self._threads.close()
        self._client.close()

    async def __aenter__(self) -> AsyncSandpool:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self.close()
