"""Keeps a pool alive on the server while its object exists here."""

from __future__ import annotations

import os
import threading

from sandpool.errors import NotFoundError, PoolLostError, SandpoolError
from sandpool.transport.server import Server

_LONGEST_INTERVAL_S = 60.0
_GOODBYE_TIMEOUT_S = 5.0


class Lease:
    """A thread that renews a pool's lease; it knows the pool only by its id, so that the object can be collected."""

    def __init__(self, server: Server, pool_id: str, lease_s: float) -> None:
        self._server = server
        self._pool_id = pool_id
        self._interval_s = min(lease_s / 3, _LONGEST_INTERVAL_S)
        self._ended = threading.Event()
        self._process_id = os.getpid()
        threading.Thread(target=self._renew, name=f"sandpool-lease-{pool_id}", daemon=True).start()

    @property
    def inherited(self) -> bool:
        """Whether this is a forked process, to which the object came with its parent's memory."""
        return self._process_id != os.getpid()

    def end(self) -> None:
        """Stop renewing."""
        self._ended.set()

    def abandon(self, close_pool: bool) -> None:
        """Stop renewing for an object that is gone, or at the interpreter's exit, and close its pool if it was ours.

        A forked child inherits the object, not the pool: there nothing is closed.
        """
        if self._ended.is_set() or self.inherited:
            return
        self._ended.set()
        if close_pool:
            try:
                self._server.request_json("DELETE", ("pools", self._pool_id), timeout_s=_GOODBYE_TIMEOUT_S)
            except SandpoolError:
                # Nobody is left to tell, and the lease ends the pool all the same.
                return

    def _renew(self) -> None:
        while not self._ended.wait(self._interval_s):
            try:
                self._server.request_json("POST", ("pools", self._pool_id, "lease"), body={}, timeout_s=self._interval_s)
            except (NotFoundError, PoolLostError):
                return
            except SandpoolError:
                # A server that restarts or is out of reach for a moment; the next renewal, or the next batch, finds out.
                continue
