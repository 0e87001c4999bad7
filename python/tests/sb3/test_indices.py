from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sandpool import InvalidTypeError, InvalidValueError
from sandpool.sb3.indices import rows_of


@pytest.mark.parametrize(
    ("indices", "rows"),
    [
        (None, [0, 1, 2]),
        (1, [1]),
        (np.int64(2), [2]),
        (-1, [2]),
        ([2, 0], [2, 0]),
        (range(2), [0, 1]),
        (np.array([0, -1]), [0, 2]),
        ([], []),
    ],
)
def test_indices_are_all_one_or_several_and_negative_ones_count_from_the_end(indices: Any, rows: list[int]) -> None:
    assert rows_of(indices, 3) == rows


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        (3, InvalidValueError, r"indices has 3; expected -3\.\.2"),
        ([0, -4], InvalidValueError, r"indices has -4; expected -3\.\.2"),
        ([0, -3], InvalidValueError, r"indices=\[0, -3\] name an environment twice"),
        ("ab", InvalidTypeError, "indices='ab' was given; expected None, a whole number or several"),
        ([0.5], InvalidTypeError, r"indices=\[0.5\] was given"),
    ],
)
def test_other_indices_are_refused(indices: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        rows_of(indices, 3)
