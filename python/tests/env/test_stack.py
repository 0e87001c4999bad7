"""Observations of several rows are one array a field of the announced space, copied at once; else a list of values."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from env.test_rows import begin
from sandpool.env.encoding import Output
from sandpool.env.row_text import MisfitError
from sandpool.env.stack import Stack

np = pytest.importorskip("numpy")
spaces = pytest.importorskip("gymnasium").spaces


def stacked(space: Any, values: list[Any]) -> tuple[Any, list[Any]]:
    """The JSON of some observations of a space, and the pieces that follow it."""
    output = Output()
    stack = Stack(space, len(values) + 1, output)
    for place, value in enumerate(values):
        stack.put(place, value)
    output.start()
    return json.loads(stack.text(len(values), output)), output.chunks


def array_of(form: Any, chunks: list[Any]) -> Any:
    dtype, shape, *place = form["$nd"]
    if len(place) == 1:
        return np.frombuffer(base64.b64decode(place[0]), dtype).reshape(shape)
    data = b"".join(bytes(chunk) for chunk in chunks)
    return np.frombuffer(data[place[0] : sum(place)], dtype).reshape(shape)


DTYPES = ["<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (60, 70, 2)])
def test_boxes_of_every_dtype_and_size_keep_their_bits(dtype: str, shape: tuple[int, ...]) -> None:
    space = spaces.Box(0, 100, shape, np.dtype(dtype).type)
    space.seed(1)
    values = [space.sample() for _ in range(3)]
    form, chunks = stacked(space, values)
    assert array_of(form, chunks).dtype == np.dtype(dtype)
    assert np.array_equal(array_of(form, chunks), np.stack(values))


def test_dicts_and_tuples_are_stacked_part_by_part() -> None:
    space = spaces.Dict(
        {
            "$a": spaces.Tuple([spaces.Discrete(3, start=-1), spaces.MultiBinary((2, 2))]),
            "b": spaces.Dict({"c": spaces.MultiDiscrete([3, 4], np.int32)}),
        }
    )
    space.seed(2)
    values = [space.sample() for _ in range(3)]
    form, chunks = stacked(space, values)
    assert chunks == []
    assert form.keys() == {"$$a", "b"}
    number, binary = (array_of(part, chunks) for part in form["$$a"]["$tuple"])
    assert (number.dtype, number.tolist()) == (np.int64, [value["$a"][0] for value in values])
    assert (binary.dtype, binary.tolist()) == (np.int8, [value["$a"][1].tolist() for value in values])
    inner = array_of(form["b"]["c"], chunks)
    assert (inner.dtype, inner.tolist()) == (np.int32, [value["b"]["c"].tolist() for value in values])


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Text(3)}),
        spaces.Sequence(spaces.Discrete(3)),
        spaces.Dict({}),
        None,
    ],
)
def test_what_has_no_fixed_arrays_is_a_list(space: Any) -> None:
    assert stacked(space, ["é", (1, 2), {"a": [None]}])[0] == ["é", {"$tuple": [1, 2]}, {"a": [None]}]


BOX = spaces.Box(-9, 9, (2,), np.float32)
IMAGE = spaces.Box(0, 255, (100, 100), np.uint8)


@pytest.mark.parametrize(
    ("space", "value", "expected"),
    [
        (BOX, np.array([1, 2], np.float64), [1, 2]),
        (BOX, np.array([1, 2], np.int64), [1, 2]),
        (BOX, np.array([True, False]), [1, 0]),
        (BOX, np.array([1, 2], ">f4"), [1, 2]),
        (BOX, np.array([[1, 0], [2, 0]], np.float32)[:, 0], [1, 2]),
        (BOX, [1, 2.5], [1, 2.5]),
        (BOX, [float("inf"), -1], [np.inf, -1]),
        (spaces.Discrete(5), 3, 3),
        (spaces.Discrete(5), np.int32(3), 3),
        (spaces.Discrete(5), np.array(3), 3),
        (spaces.Discrete(5), True, 1),
        (spaces.Discrete(5), 3.0, 3),
        (BOX, np.array([1, 2.5], object), [1, 2.5]),
        (spaces.Box(0, 9, (2,), np.dtype(">f4")), np.array([1, 2], ">f4"), [1, 2]),
        (spaces.MultiBinary(2), [1, 0], [1, 0]),
        (spaces.MultiBinary(2), np.array([True, False]), [1, 0]),
        (IMAGE, np.full((100, 100), 7, np.uint8)[::-1, ::-1], np.full((100, 100), 7).tolist()),
    ],
)
def test_what_fits_is_cast_as_the_agent_casts(space: Any, value: Any, expected: Any) -> None:
    form, chunks = stacked(space, [value])
    assert array_of(form, chunks)[0].tolist() == expected


@pytest.mark.parametrize(
    ("space", "value", "said"),
    [
        (BOX, np.zeros((1, 2), np.float32), r"its shape is \(1, 2\), expected \(2,\)"),
        (BOX, np.float32(1), r"its shape is \(\), expected"),
        (BOX, np.zeros(2, np.complex64), "complex64, which numpy does not cast"),
        (BOX, [1, [2]], "inhomogeneous"),
        (BOX, ["a", "b"], "its dtype is <U1"),
        (BOX, (1, 2), "expected an array"),
        (BOX, None, "expected an array"),
        (BOX, "ab", "expected an array"),
        (spaces.Discrete(3), 1.5, "int64 does not hold"),
        (spaces.Discrete(3), np.float32(1), "float32, which numpy does not cast to int64"),
        (spaces.Discrete(3), 2**63, "its dtype is uint64|does not hold"),
        (spaces.MultiBinary(2), [1, 300], "int8 does not hold"),
        (IMAGE, np.zeros((100, 100), np.int64), "int64, which numpy does not cast to uint8"),
        (spaces.Dict({"a": BOX}), {"b": 1}, r"has the keys \['b'\]"),
        (spaces.Dict({"a": BOX}), 1, "makes it a dict"),
        (spaces.Tuple([BOX]), (1, 2), "its Tuple space has 1 parts"),
        (spaces.Tuple([BOX]), 1, "makes it a tuple"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(space: Any, value: Any, said: str) -> None:
    with pytest.raises(MisfitError, match=said) as caught:
        stacked(space, [value])
    assert caught.value.sandpool_kind == "protocol"


def test_a_refused_value_of_a_list_leaves_no_bytes_behind() -> None:
    output = Output()
    stack = Stack(None, 2, output)
    stack.put(0, np.arange(2000.0))
    with pytest.raises(MisfitError, match="33554484 bytes are more than a row's share"):
        stack.put(1, {"a": np.zeros(1 << 22), "b": 1})
    with pytest.raises(TypeError):
        stack.put(1, [np.zeros(9999), object()])
    assert output.size == sum(len(bytes(chunk)) for chunk in output.chunks) == 16_000


SHARED = """
    from sandpool.env import serve
    import numpy as np, gymnasium
    buffer = np.zeros({shape}, np.float32)
    class Reuses(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-9, 9, {shape}, np.float32)
        action_space = gymnasium.spaces.Discrete(9)
        def reset(self, seed=None, options=None):
            buffer[:] = -1
            return buffer, {{"view": buffer[:1]}}
        def step(self, action):
            buffer[:] = action
            return buffer if action < 8 else buffer[:1], 1, False, False, {{"view": buffer[:1]}}
    serve(make=lambda config: Reuses())
"""


@pytest.mark.parametrize("shape", [(3,), (4000,)])
def test_an_environment_may_reuse_one_buffer_for_all_rows(start: Any, shape: tuple[int, ...]) -> None:
    program = begin(start, SHARED.format(shape=shape), 3)
    assert (program.reset_rows()["obs"] == -1).all()
    reply = program.step_array(np.array([4, 5, 6]))
    assert reply["obs"].shape == (3, *shape)
    assert [set(row.tolist()) for row in reply["obs"]] == [{4}, {5}, {6}]
    assert [info["view"].tolist() for info in reply["infos"].values()] == [[4], [5], [6]]
    reply = program.step_array(np.array([1, 8, 2]))
    assert {row: error["kind"] for row, error in reply["errors"].items()} == {"1": "protocol"}
    assert [set(row.tolist()) for row in reply["obs"][[0, 2]]] == [{1}, {2}]


def test_large_batches_come_whole_through_the_channel(start: Any) -> None:
    code = SHARED.format(shape=(84, 84, 12)).replace(
        "buffer[:] = action", "buffer[:] = np.arange(buffer.size).reshape(buffer.shape) + action"
    )
    program = begin(start, code, 12)
    program.reset_rows()
    expected = np.arange(84 * 84 * 12, dtype=np.float32).reshape(84, 84, 12)
    observations = program.step_array(np.arange(12) % 8)["obs"]
    assert observations.nbytes == 12 * 84 * 84 * 12 * 4
    assert all((row == expected + number % 8).all() for number, row in enumerate(observations))


def test_without_numpy_and_spaces_rows_are_lists(start: Any) -> None:
    program = begin(
        start,
        """
        from sandpool.env import serve
        import sys
        class Plain:
            def __init__(self, index): self.index = index
            def reset(self, seed=None): return {"at": self.index}, {"seed": seed}
            def step(self, action):
                if action == "x": return "\\ud800", 0, False, {}
                return [self.index, action, "numpy" in sys.modules], action, action > 1, {"TimeLimit.truncated": action > 2}
        serve(make=lambda index, config: Plain(index))
        """,
        3,
    )
    assert program.reset_rows([1, 2, 3]) == {
        "obs": [{"at": 0}, {"at": 1}, {"at": 2}],
        "infos": {str(row): {"seed": row + 1} for row in range(3)},
    }
    reply = program.step_array(np.array([1, 2, 3]))
    assert reply["obs"] == [[0, 1, False], [1, 2, False], [2, 3, False]]
    assert (reply["reward"].tolist(), reply["terminated"].tolist()) == ([1, 2, 3], [False, True, False])
    assert reply["truncated"].tolist() == [False, False, True]
    reply = program.step_rows([1, "x", 3])
    assert (reply["obs"], reply["errors"].keys()) == ([[0, 1, False], None, [2, 3, False]], {"1"})
    assert "lone surrogate" in reply["errors"]["1"]["message"]


def test_the_place_of_a_failed_row_in_a_list_has_nothing_of_an_earlier_message(start: Any) -> None:
    program = begin(
        start,
        """
        from sandpool.env import serve
        import numpy as np
        class Large:
            def reset(self, seed=None): return np.zeros(2000)
            def step(self, action): return np.full(1000 * action, 1.0), 1 // action, False, {}
        serve(make=lambda config: Large())
        """,
        2,
    )
    assert [one.shape for one in program.reset_rows()["obs"]] == [(2000,)] * 2
    reply = program.step_rows([1, 0])
    assert (reply["obs"][0].tolist(), reply["obs"][1]) == ([1.0] * 1000, None)
    assert reply["errors"].keys() == {"1"}
