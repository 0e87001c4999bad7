"""Keeps a machine alive on the server while its object exists here, and deletes it with the object."""

from __future__ import annotations

import os
import threading

from sandpool.errors import NotFoundError, SandpoolError
from sandpool.machines.create import delete_quietly
from sandpool.machines.errors import MachineLostError
from sandpool.transport.calls import Calls

_LONGEST_INTERVAL_S = 60.0


class MachineLease:
    """A thread that renews a machine's lease; it knows the machine only by its id, so that the object can be collected."""

    def __init__(self, calls: Calls, machine_id: str, lease_s: float) -> None:
        self._calls = calls
        self._machine_id = machine_id
        self._interval_s = min(lease_s / 3, _LONGEST_INTERVAL_S)
        self._ended = threading.Event()
        self._process_id = os.getpid()
        threading.Thread(target=self._renew, name=f"sandpool-lease-{machine_id}", daemon=True).start()

    @property
    def inherited(self) -> bool:
        """Whether this is a forked process, to which the object came with its parent's memory."""
        return self._process_id != os.getpid()

    def end(self) -> None:
        """Stop renewing."""
        self._ended.set()

    def abandon(self) -> None:
        """Delete the machine of an object that is gone, or at the interpreter's exit. In a forked child it is the parent's."""
        if self._ended.is_set() or self.inherited:
            return
        self._ended.set()
        delete_quietly(self._calls, self._machine_id)

    def _renew(self) -> None:
        while not self._ended.wait(self._interval_s):
            try:
                self._calls.json("POST", ("machines", self._machine_id, "lease"), body={}, timeout_s=self._interval_s)
            except (NotFoundError, MachineLostError):
                return
            except SandpoolError:
                # A server that restarts or is out of reach for a moment; the next renewal, or the next call, finds out.
                continue
