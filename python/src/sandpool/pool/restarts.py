"""What was reset, or became a copy, since one last looked."""

from __future__ import annotations

import numpy as np

from sandpool.pool.batches import Batches


class Restarts:
    """An adapter's look at `Batches.restarts`: so it learns what was done to the pool behind it."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._seen = batches.restarts.copy()

    def take(self) -> list[int]:
        """Return the rows that were restarted since the last call, ascending."""
        rows: list[int] = np.flatnonzero(self._batches.restarts != self._seen).tolist()
        if rows:
            self._seen = self._batches.restarts.copy()
        return rows
