"""Every value an environment may return has one tagged form, and reading that form gives the value back."""

from __future__ import annotations

import collections
import enum
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandpool.env import decoding, encoding

np = pytest.importorskip("numpy")


def encode(value: Any) -> Any:
    output = encoding.Output()
    output.start()
    return json.loads(encoding.encode(value, output))


def decode(tagged: Any, raw: bytes = b"") -> Any:
    return decoding.decode(tagged, raw)


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
)
KEYS = st.text(st.sampled_from("$ab"), max_size=4)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner) | st.lists(inner).map(tuple), max_leaves=20)


@settings(max_examples=300, deadline=None)
@given(VALUES)
def test_plain_values_survive(value: Any) -> None:
    again = decode(encode(value))
    assert again == value
    assert repr(again) == repr(value)  # tells 1 from 1.0 and True, and -0.0 from 0.0


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_the_text_is_json_without_bare_constants_or_single_dollars(value: Any) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    output = encoding.Output()
    text = encoding.encode(value, output)
    _check_keys(json.loads(text, parse_constant=refuse))


def _check_keys(value: Any) -> None:
    if isinstance(value, dict):
        tags = [key for key in value if key.startswith("$") and not key.startswith("$$")]
        assert not tags or (len(value) == 1 and tags[0] in ("$tuple", "$bytes", "$float", "$nd"))
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_keys(inner)


DTYPES = ["?", "b", "h", "i", "q", "B", "H", "I", "Q", "e", "f", "d", "F", "D", "g", "U3", "S3", "M8[ns]", "m8[D]", "V5"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_arrays_of_every_dtype_keep_dtype_shape_and_elements(dtype: str, shape: tuple[int, ...]) -> None:
    array = _some(np.dtype(dtype), shape)
    for given_array in (array, array.copy("F"), array.astype(array.dtype.newbyteorder(">"))):
        form = encode(given_array)
        assert form["$nd"][1] == list(shape)
        again = decode(form)
        assert np.dtype(form["$nd"][0]) == array.dtype
        assert again.dtype == array.dtype or shape == ()  # numpy's text scalars are as long as their text
        assert np.asarray(again).shape == shape
        assert (np.asarray(again, array.dtype) == array).all()


def _some(dtype: Any, shape: tuple[int, ...]) -> Any:
    count = math.prod(shape)
    if dtype.kind in "USV":
        return np.array([b"ab", b"c", b"", b"xyz", b"q", b"r"][:count] or [b"a"], "S3")[:count].astype(dtype).reshape(shape)
    return (np.arange(count) % 2).astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", [one for one in DTYPES if np.dtype(one).kind not in "USV"])
def test_numpy_scalars_keep_their_dtype(dtype: str) -> None:
    scalar = np.dtype(dtype).type(1, *(["D"] if "[D]" in dtype else ["ns"] if "[ns]" in dtype else []))
    again = decode(encode(scalar))
    assert again.dtype == scalar.dtype
    assert again == scalar


def test_numpy_text_is_text() -> None:
    assert encode(np.str_("x")) == "x"
    assert decode(encode(np.bytes_(b"x"))) == b"x"


def test_arrays_are_writable_copies() -> None:
    array = decode(encode(np.arange(3)))
    array[0] = 9
    raw = bytes(range(8))
    array = decode({"$nd": ["|u1", [8], 0, 8]}, raw)
    array[0] = 9
    assert raw[0] == 0


def test_odd_arrays_become_what_they_hold() -> None:
    assert encode(np.array([1, "x", None, (2,)], object)) == [1, "x", None, {"$tuple": [2]}]
    record = np.array([(1, 2.5)], [("a", "<i4"), ("$b", "<f8")])
    assert decode(encode(record)) == {"a": np.array([1], "i4"), "$b": np.array([2.5])}
    assert decode(encode(record[0])) == {"a": 1, "$b": 2.5}
    assert encode(np.ma.masked_array([1, 2], [0, 1])) == encode(np.array([1, 2]))  # the data, as numpy.asarray has it
    if hasattr(np, "dtypes") and hasattr(np.dtypes, "StringDType"):
        assert encode(np.array(["long", "x"], np.dtypes.StringDType())) == ["long", "x"]


class Level(enum.IntEnum):
    LOW = 1


Pair = collections.namedtuple("Pair", "x y")


class Foreign:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([1.5], "<f4")


@pytest.mark.parametrize(
    ("value", "tagged"),
    [
        (Level.LOW, 1),
        (Pair(1, 2), {"$tuple": [1, 2]}),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.deque([1, 2]), [1, 2]),
        (range(3), [0, 1, 2]),
        ({7}, [7]),
        (bytearray(b"ab"), {"$bytes": "YWI="}),
        (memoryview(b"ab"), {"$bytes": "YWI="}),
        ({1: "x", None: 2}, {"1": "x", "None": 2}),
        ([1.0, float("inf")], [1.0, {"$float": "inf"}]),
        ([1, float("nan"), "x"], [1, {"$float": "nan"}, "x"]),
        (Foreign(), {"$nd": ["<f4", [1], "AADAPw=="]}),
    ],
)
def test_relatives_of_the_plain_types_are_sent_as_them(value: Any, tagged: Any) -> None:
    assert encode(value) == tagged


def test_graphs_keep_their_parts() -> None:
    spaces = pytest.importorskip("gymnasium").spaces
    graph = spaces.GraphInstance(np.zeros((2, 1), np.float32), None, np.array([[0, 1]]))
    form = encode(graph)
    assert form["$graph"]["edges"] is None
    again = decode(form)
    assert type(again) is spaces.GraphInstance
    assert (again.edge_links == graph.edge_links).all()


@pytest.mark.parametrize(
    "form",
    [
        ["|O", [1], "AAAAAAAAAAA="],
        ["O,i4", [1], "AAAAAAAAAAAAAAAA"],
        ["<f4", [2], "AAAAAA=="],
        ["<f4", [1], "AAAAAAAAAAA="],
        ["<f4", [-1], ""],
        ["<f4", [1.0], "AAAAAA=="],
        ["<f4", [1], 0, 8],
        ["<f4", [2], 0, 4],
        ["<f4", [1], -4, 4],
        ["no dtype", [1], "AAAAAA=="],
        [4, [1], "AAAAAA=="],
        ["<f4"],
        "text",
    ],
)
def test_an_array_that_cannot_be_is_refused(form: Any) -> None:
    with pytest.raises(ValueError, match=r"received \$nd .*; expected \[dtype, shape, base64\]"):
        decode({"$nd": form}, b"\0" * 4)
