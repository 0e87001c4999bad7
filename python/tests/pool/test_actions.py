from __future__ import annotations

import numpy as np
import pytest

from sandpool import InvalidTypeError, InvalidValueError
from sandpool.pool.actions import read_actions
from sandpool.pool.selection import select_rows

DISCRETE = {"type": "Discrete", "n": 2, "start": 0, "dtype": "<i8"}
BOX = {"type": "Box", "dtype": "<f4", "shape": [2]}
PAIR = {"type": "Tuple", "spaces": [DISCRETE, BOX]}
NAMED = {"type": "Dict", "spaces": [["turn", DISCRETE], ["gas", BOX]]}


def read(actions: object, where: object = None, n: int = 3, space: dict | None = None) -> object:
    return read_actions(actions, select_rows(where, n), n, space)


@pytest.mark.parametrize(
    ("actions", "dtype", "shape"),
    [
        ([1, 0, 1], "<i8", (3,)),
        ((1.5, 0.0, 1.0), "<f8", (3,)),
        (np.array([1, 0, 1], np.uint8), "|u1", (3,)),
        (np.array([1, 0, 1], ">i4"), "<i4", (3,)),
        ([np.int64(1), np.int64(0), np.int64(1)], "<i8", (3,)),
        ([np.float32([1, 2])] * 3, "<f4", (3, 2)),
        (np.ones((2, 3), np.float32).T, "<f4", (3, 2)),
        (np.array([True, False, True]), "|b1", (3,)),
    ],
)
def test_numbers_of_one_dtype_and_shape_go_as_one_array(actions: object, dtype: str, shape: tuple) -> None:
    array = read(actions)
    assert isinstance(array, np.ndarray)
    assert (array.dtype.str, array.shape) == (dtype, shape)
    assert array.flags.c_contiguous
    np.testing.assert_array_equal(array, np.asarray(actions))


@pytest.mark.parametrize(
    ("actions", "dtype"),
    [
        (np.arange(4096) % 2, "|i1"),
        (np.arange(4096) % 256 - 128, "|i1"),
        (np.arange(4096) % 2 * 128, "<i8"),
        (np.arange(4096) % 2 + 2**40, "<i8"),
        (np.arange(4096).astype(np.uint16), "<u2"),
        (np.arange(8192) % 2 == 0, "|b1"),
        (np.arange(1000) % 2, "<i8"),
    ],
)
def test_many_actions_of_a_discrete_space_go_as_bytes_where_that_loses_nothing(actions: np.ndarray, dtype: str) -> None:
    array = read(actions, n=len(actions), space=DISCRETE)
    assert isinstance(array, np.ndarray)
    assert array.dtype.str == dtype
    np.testing.assert_array_equal(array, actions)
    assert read(actions, n=len(actions)).dtype == actions.dtype


@pytest.mark.parametrize(
    "actions",
    [
        ["left", "right", "left"],
        [1, 0.5, 1],
        [True, False, True],
        [10**30, 1, 2],
        [2**63, 1, 2],
        [{"a": 1}, {"a": 2}, {"a": 3}],
        [[1, 2], [3, 4], [5, 6]],
        [None, 1, 2],
        [(1, 2), (3, 4), (5, 6)],
    ],
)
def test_everything_else_stays_a_list_of_exactly_what_was_given(actions: list) -> None:
    given = read(actions)
    assert given == actions
    assert list(map(type, given)) == list(map(type, actions))


@pytest.mark.parametrize("actions", [[None, 1, 2], [True, False, 1], [10**30, 1, 2], [[1], [2, 3], 4], [{"a": 1}, 2, 3]])
def test_what_is_no_text_in_a_space_of_numbers_is_left_to_the_pool(actions: list) -> None:
    assert read(actions, space=DISCRETE) == actions


def test_text_for_a_space_of_text_is_a_list() -> None:
    assert read(["a", "b", "c"], space={"type": "Text"}) == ["a", "b", "c"]


def test_actions_for_indices_follow_the_order_of_where() -> None:
    np.testing.assert_array_equal(read([30, 10], where=[3, 1], n=5), [10, 30])
    assert read(["c", "a"], where=[3, 1], n=5) == ["a", "c"]


def test_n_actions_with_where_are_those_of_the_rows() -> None:
    mask = [False, True, False, True, False]
    np.testing.assert_array_equal(read([0, 10, 20, 30, 40], where=mask, n=5), [10, 30])
    np.testing.assert_array_equal(read([0, 10, 20, 30, 40], where=[3, 1], n=5), [10, 30])
    np.testing.assert_array_equal(read([10, 30], where=mask, n=5), [10, 30])


def test_columns_of_dict_and_tuple_spaces_become_rows() -> None:
    turn, gas = np.array([1, 0, 1]), np.arange(6, dtype=np.float32).reshape(3, 2)
    rows = read({"gas": gas, "turn": turn}, space=NAMED)
    assert [row["turn"] for row in rows] == [1, 0, 1]
    np.testing.assert_array_equal(rows[2]["gas"], [4, 5])
    pairs = read((turn, gas), space=PAIR)
    assert all(isinstance(pair, tuple) for pair in pairs)
    np.testing.assert_array_equal(pairs[1][1], [2, 3])


@pytest.mark.parametrize(
    ("actions", "where", "space", "error", "message"),
    [
        ([1, 0], None, None, InvalidValueError, "2 actions were given; expected 3"),
        ([1], [0, 2], None, InvalidValueError, "1 actions were given; expected 2.*or one for each of the pool's 3"),
        (np.array([]), None, None, InvalidValueError, "0 actions"),
        (1, None, None, InvalidTypeError, "type int"),
        (np.int64(1), None, None, InvalidTypeError, "int64"),
        (np.array(1), None, None, InvalidTypeError, "scalar"),
        ("abc", None, None, InvalidTypeError, "type str"),
        ({1, 2, 3}, None, None, InvalidTypeError, "type set"),
        ({"a": 1}, None, None, InvalidTypeError, "type dict"),
        (None, None, None, InvalidTypeError, "NoneType"),
        (iter([1, 2, 3]), None, None, InvalidTypeError, "iterator"),
        ([1.0, 0.0, 1.0], None, DISCRETE, InvalidTypeError, "float64; expected integers"),
        (["a"] * 3, None, DISCRETE, InvalidTypeError, "The action of row 0 is 'a'; expected integers for the action space Discrete"),
        ([1, "b", 2], None, DISCRETE, InvalidTypeError, "row 1 is 'b'; expected integers"),
        ([None, 1, b"c"], None, DISCRETE, InvalidTypeError, "row 2 is b'c'; expected integers"),
        (["2", 0], [2, 0], DISCRETE, InvalidTypeError, "row 2 is '2'; expected integers"),
        ([1, 0.5, 1], None, DISCRETE, InvalidTypeError, r"row 1 is 0\.5; expected integers"),
        (np.array(["1", "0", "1"]), None, DISCRETE, InvalidTypeError, "row 0 is '1'; expected integers"),
        (np.array([1, "x", 1], object), None, DISCRETE, InvalidTypeError, "row 1 is 'x'; expected integers"),
        ([[1, 2], [1, "x"], [1, 2]], None, BOX, InvalidTypeError, r"row 1 is \[1, 'x'\]; expected numbers for the action space Box"),
        ([[1, 2], "ab", [1, 2]], None, BOX, InvalidTypeError, "row 1 is 'ab'; expected numbers"),
        (np.ones((3, 1), int), None, DISCRETE, InvalidValueError, r"shape \(3, 1\); expected \(3,\)"),
        (np.ones(3), None, BOX, InvalidValueError, r"shape \(3,\); expected \(3, 2\)"),
        (np.ones((3, 2), complex), None, BOX, InvalidTypeError, "complex"),
        ({"turn": [1, 1, 1]}, None, NAMED, InvalidValueError, "keys"),
        ({"turn": [1, 1], "gas": [1, 2, 3]}, None, NAMED, InvalidValueError, "lengths"),
    ],
)
def test_wrong_counts_shapes_and_types_are_refused(actions: object, where: object, space: dict | None, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        read(actions, where, space=space)
