"""What an object here holds of a pool on the server: its description, its lease, and the way to its end."""

from __future__ import annotations

import contextlib
import weakref
from types import TracebackType
from typing import Any, TypeVar

from sandpool.errors import NotFoundError, PoolClosedError, PoolLostError, SandpoolError
from sandpool.escape import escape_untrusted
from sandpool.pool.channel import BatchChannel
from sandpool.pool.endpoint import endpoint_of
from sandpool.pool.lease import Lease
from sandpool.pool.options import check_row
from sandpool.pool.timeouts import Timeouts
from sandpool.transport.server import Server

H = TypeVar("H", bound="PoolHandle")


class PoolHandle:
    """A pool that exists, without its batches.

    Attributes:
        description: what the server said of the pool when it was made or attached to.
        id: its id.
        n: its rows.
    """

    description: dict[str, Any]
    id: str
    n: int

    def _hold(self, server: Server, description: dict[str, Any], timeouts: Timeouts, *, owned: bool) -> None:
        self.description = description
        self.id = description["id"]
        self.n = description["n"]
        self._server = server
        self._owned = owned
        self._timeouts = timeouts
        self._endpoint = endpoint_of(server.address, description)
        self._channel = BatchChannel(self._endpoint.address, self.id, description["next_seq"], self._endpoint.local_socket)
        self._lease = Lease(server, self.id, float(description["lease"]["seconds"]))
        self._finalizer = weakref.finalize(self, self._lease.abandon, owned)

    @property
    def name(self) -> str | None:
        """The pool's name, or None."""
        return self.description["name"]  # type: ignore[no-any-return]

    @property
    def observation_space(self) -> dict[str, Any] | None:
        """The announced observation space of one environment as a plain dict, or None; see `sandpool.spaces.to_gymnasium`."""
        return self.description["observation_space"]  # type: ignore[no-any-return]

    @property
    def action_space(self) -> dict[str, Any] | None:
        """The announced action space of one environment as a plain dict, or None."""
        return self.description["action_space"]  # type: ignore[no-any-return]

    @property
    def reset_timeout(self) -> float:
        """Seconds that a row has for a reset."""
        return self._timeouts.reset_timeout

    @property
    def closed(self) -> bool:
        """Whether this object was closed or detached."""
        return not self._finalizer.alive

    def status(self, memory: bool = True) -> dict[str, Any]:
        """Return the pool's description, its rows' states and counters; with `memory` also their sizes, and how they were sampled."""
        self._check_open()
        query = {"memory": "true"} if memory else None
        return self._server.request_json("GET", ("pools", self.id), query=query)  # type: ignore[no-any-return]

    def logs(self, row: int, *, raw: bool = False) -> Any:
        """Return the end of a row's standard error: text made safe for a terminal, or with `raw` the bytes as they came."""
        self._check_open()
        check_row(row, self.n)
        data = self._server.request_bytes("GET", ("pools", self.id, "logs"), query={"row": str(int(row))})
        return data if raw else escape_untrusted(data.decode("utf-8", "backslashreplace"), limit_chars=1 << 20)

    def close(self) -> None:
        """Close the pool on the server and wait until nothing of it is left. Closing twice is allowed.

        A forked process only lets go of the pool: it is its parent's.
        """
        if self._lease.inherited:
            self.detach()
        elif self._let_go():
            # A pool that its lease, the server or another client has ended is as closed as it can be.
            with contextlib.suppress(NotFoundError, PoolLostError):
                self._server.request_json("DELETE", ("pools", self.id), timeout_s=self._timeouts.close_s)
            self._server.close()

    def detach(self) -> None:
        """Let go of the pool without closing it; it lives on for its lease."""
        if self._let_go():
            self._server.close()

    def __enter__(self: H) -> H:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not self._owned:
            self.detach()
            return
        # What ended the block says more than a close that fails too, most often because the server is gone.
        with contextlib.nullcontext() if error is None else contextlib.suppress(SandpoolError):
            self.close()

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"at {self._server.address.url}"
        return f"<{type(self).__name__} {self.id} of {self.n} environments, {state}>"

    def _check_open(self) -> None:
        if self.closed:
            raise PoolClosedError(
                f"The pool {self.id} was closed by this object; expected an open pool.", hint="Make another RLPool, or call before close()."
            )

    def _let_go(self) -> bool:
        was_open = self._finalizer.detach() is not None
        self._lease.end()
        self._channel.close()
        return was_open
