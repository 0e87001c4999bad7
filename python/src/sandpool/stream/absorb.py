"""What a pool object keeps of results in finish order, and what its user is told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sandpool.pool.batches import Batches
from sandpool.pool.report import Reporter
from sandpool.stream.results import Part, ReceivedResult, join_parts


def absorb_parts(parts: Sequence[Part], batches: Batches, reporter: Reporter) -> ReceivedResult:
    """Return the rows of `parts` as one result."""
    result = join_parts(parts, batches.observations)
    for place in np.flatnonzero(result.ops == "reset").tolist():
        row = int(result.index[place])
        batches.reset_infos[row] = result.infos[place]
        batches.restarts[row] += 1
    batches.errors = result.errors
    if result.errors:
        reporter.report(result.errors, result)
    return result
