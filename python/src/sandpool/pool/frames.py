"""Frames of all rows, also where a row has none because it failed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np


class Frames:
    """Puts a black frame in the place of a failed row's: who records or tiles the rows needs one of each, of one size."""

    def __init__(self) -> None:
        self._form: tuple[tuple[int, ...], np.dtype[Any]] | None = None

    def complete(self, frames: Sequence[Any], failed: Collection[int]) -> list[Any]:
        """Return one frame for each row; None stays where no row ever had an array."""
        for row, frame in enumerate(frames):
            if row not in failed and isinstance(frame, np.ndarray):
                self._form = frame.shape, frame.dtype
                break
        if self._form is None or not failed:
            return list(frames)
        return [np.zeros(*self._form) if row in failed else frame for row, frame in enumerate(frames)]
