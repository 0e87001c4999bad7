"""Actions of several rows are what iterating Gymnasium's batched space gives, however they came."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from env.test_spaces import SPACES, encoded, listed, same
from sandpool.env.cast_rows import ActionCaster

np = pytest.importorskip("numpy")
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate  # noqa: E402

ONE_ARRAY = [name for name, space in SPACES.items() if isinstance(create_empty_array(space, 4), np.ndarray)]


@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")
@pytest.mark.parametrize(
    ("form", "name"), [*(("one array", name) for name in ONE_ARRAY), *((form, name) for form in ("tagged", "listed") for name in SPACES)]
)
def test_actions_are_what_the_batched_space_gives(name: str, form: str) -> None:
    space = SPACES[name]
    space.seed(3)
    samples = [space.sample() for _ in range(4)]
    batched = concatenate(space, samples, create_empty_array(space, 4))
    sent = encoded(batched) if form == "one array" else [encoded(one) for one in samples]
    actions, misfits = ActionCaster(space).cast_rows(listed(sent) if form == "listed" else sent, b"", 4)
    assert misfits == []
    assert len(actions) == 4
    for action, expected in zip(actions, iterate(batch_space(space, 4), batched), strict=True):
        assert same(action, expected), (action, expected)


def test_an_array_of_another_dtype_is_cast_where_nothing_is_lost() -> None:
    cast = ActionCaster(SPACES["discrete"]).cast_rows
    for dtype in ("<f4", "<i4", "|u1"):
        actions, misfits = cast(nd(np.array([1, 4], dtype)), b"", 2)
        assert [same(action, np.int64(number)) for action, number in zip(actions, (1, 4), strict=True)] == [True, True]
        assert misfits == []
    actions, misfits = cast(nd(np.array([1, 2.5, 3])), b"", 3)
    assert misfits == [1]
    assert same(actions[0], np.int64(1))
    assert same(actions[2], np.int64(3))
    assert "expected one integer" in str(actions[1])
    box, misfits = ActionCaster(SPACES["box"]).cast_rows(nd(np.ones((2, 3), "<f8")), b"", 2)
    assert [same(action, np.ones(3, np.float32)) for action in box] == [True, True]
    assert misfits == []
    wrong, misfits = ActionCaster(SPACES["box"]).cast_rows(nd(np.ones((2, 4), "<f4")), b"", 2)
    assert misfits == [0, 1]
    assert r"its shape is (4,), expected (3,)" in str(wrong[0])


def test_raw_bytes_and_places_in_them() -> None:
    data = b"xxxx" + np.array([[1, 2, 3], [4, 5, 6]], "<f4").tobytes()
    actions, _ = ActionCaster(SPACES["box"]).cast_rows({"$nd": ["<f4", [2, 3], 4, 24]}, data, 2)
    assert [action.tolist() for action in actions] == [[1, 2, 3], [4, 5, 6]]


def test_without_a_space_numbers_are_plain_and_arrays_are_arrays() -> None:
    cast = ActionCaster(None).cast_rows
    assert cast(nd(np.array([1, 2], "<i4")), b"", 2) == ([1, 2], [])
    assert [type(one) for one in cast(nd(np.array([1, 2], "<f4")), b"", 2)[0]] == [float, float]
    assert [type(one) for one in cast(nd(np.array([True, False])), b"", 2)[0]] == [np.bool_, np.bool_]
    assert [one.tolist() for one in cast(nd(np.ones((2, 1))), b"", 2)[0]] == [[1], [1]]
    assert cast(["a", {"$tuple": [1]}], b"", 2) == (["a", (1,)], [])


def test_one_misfit_leaves_the_others() -> None:
    actions, misfits = ActionCaster(SPACES["discrete"]).cast_rows([1, "x", None, 2], b"", 4)
    assert misfits == [1, 2]
    assert [int(actions[0]), int(actions[3])] == [1, 2]
    assert all("does not fit" in str(actions[place]) for place in misfits)


def nd(array: Any) -> dict[str, Any]:
    return {"$nd": [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]}
