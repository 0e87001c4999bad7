from __future__ import annotations

import numpy as np
import pytest

from sandpool import InvalidValueError
from sandpool.pool.selection import select_rows


@pytest.mark.parametrize(
    ("where", "rows", "order"),
    [
        (None, None, None),
        ([True] * 4, None, None),
        ([False, True, False, True], [1, 3], None),
        (np.array([False] * 4), [], None),
        ([3, 0], [0, 3], [1, 0]),
        ((1, 2), [1, 2], None),
        (np.array([2], np.uint8), [2], None),
        ([], [], None),
    ],
)
def test_masks_and_indices_select_rows_in_index_order(where: object, rows: list | None, order: list | None) -> None:
    selection = select_rows(where, 4)
    assert (None if selection.rows is None else selection.rows.tolist()) == rows
    assert (None if selection.order is None else selection.order.tolist()) == order
    assert selection.count == (4 if rows is None else len(rows))
    assert list(selection.indices()) == (rows if rows is not None else [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ([True], "mask of 1 rows; the pool has 4"),
        ([0, 4], "row index 4; expected 0..3"),
        ([-1], "row index -1"),
        ([2, 1, 2], "index 2 twice"),
        ([[0]], r"shape \(1, 1\)"),
        (2, r"shape \(\)"),
        ([0.0], "float64"),
        (["a"], "dtype"),
        ([[0], [1, 2]], "neither a mask nor"),
        ([True, 2], "bools and integers mixed"),
        ((1, np.False_), "bools and integers mixed"),
    ],
)
def test_everything_else_is_refused(where: object, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        select_rows(where, 4)
