from __future__ import annotations

import enum
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from sandpool import InvalidTypeError, InvalidValueError
from sandpool.values.decode import decode_json
from sandpool.values.encode import encode_json
from sandpool.values.graph import GraphInstance

KEYS = st.text(max_size=5) | st.sampled_from(["$nd", "$$nd", "$", "$tuple", "$float"])
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
LEAVES = st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False) | TEXT | st.binary(max_size=8)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3) | st.tuples(inner, inner)
)


@given(VALUES)
def test_every_value_comes_back_as_it_was(value: object) -> None:
    assert decode_json(encode_json(value)) == value


@given(st_numpy.arrays(st_numpy.scalar_dtypes(), st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0)))
def test_every_array_keeps_its_dtype_shape_and_bytes(array: np.ndarray) -> None:
    decoded = decode_json(encode_json(array))
    expected = array.astype(array.dtype.newbyteorder("<"))
    assert decoded.dtype == expected.dtype
    assert decoded.shape == expected.shape
    assert decoded.tobytes() == expected.tobytes()


def test_the_tags_are_those_of_the_protocol() -> None:
    value = {"a": (1, b"\xff"), "$b": [math.nan, math.inf, -math.inf], "c": np.float32(1.5), "d": np.array([[1], [2]], "<i2")}
    assert json.loads(encode_json(value)) == {
        "a": {"$tuple": [1, {"$bytes": "/w=="}]},
        "$$b": [{"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}],
        "c": {"$nd": ["<f4", [], "AADAPw=="]},
        "d": {"$nd": ["<i2", [2, 1], "AQACAA=="]},
    }


def test_a_graph_comes_back_as_a_named_tuple() -> None:
    graph = GraphInstance(np.zeros((2, 1), np.float32), None, np.array([[0, 1]]))
    decoded = decode_json(encode_json({"g": graph}))["g"]
    assert isinstance(decoded, GraphInstance)
    np.testing.assert_array_equal(decoded.nodes, graph.nodes)
    assert decoded.edges is None


def test_decoded_arrays_can_be_written_to() -> None:
    array = decode_json('{"$nd":["<f4",[1],"AADAPw=="]}')
    array[0] = 2
    assert array[0] == 2


@pytest.mark.parametrize(
    "text",
    [
        '{"$nd":["|O",[1],"AAAAAAAAAAA="]}',
        '{"$nd":["<f4",[1000000000000],"AAAA"]}',
        '{"$nd":["<f4",[-1],"AADAPw=="]}',
        '{"$nd":["<f4",[1],"not base64!"]}',
        '{"$nd":["<f4",[0,99999999999999999999999],""]}',
        '{"$nd":["(2,2)f4",[1],"AAAAAAAAAAAAAAAAAAAAAA=="]}',
        '{"$nd":3}',
        '{"$nd":["<f4"]}',
        '{"$nd":["<f4",[true],"AADAPw=="]}',
        '{"$float":"1.5"}',
        '{"$float":["nan"]}',
        '{"$tuple":3}',
        '{"$bytes":[1]}',
        '{"$graph":{}}',
        '{"$graph":3}',
        '{"$unknown":1}',
    ],
)
def test_a_malformed_tag_stays_the_plain_value_it_was_and_costs_no_neighbour(text: str) -> None:
    assert decode_json(f"[{text}, 1]") == [json.loads(text), 1]


def test_an_escaped_dollar_is_a_dollar() -> None:
    assert decode_json('{"\\u0024tuple":[1]}') == (1,)


class Colour(enum.IntEnum):
    RED = 3


def test_subclasses_of_plain_types_go_as_what_they_hold() -> None:
    assert encode_json([Colour.RED, np.str_("x"), np.bool_(True)]).startswith(b"[3,")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [object()]}, r"config\['a'\]\[0\]"),
        ({1: 2}, "key 1"),
        (np.array([object()]), "config is an array of dtype object"),
        ({1, 2}, "set"),
    ],
)
def test_what_cannot_be_sent_is_named_with_its_place(value: object, place: str) -> None:
    with pytest.raises(InvalidTypeError, match=place):
        encode_json(value, "config")


def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="lone surrogate"):
        encode_json({"a": "\ud800"}, "config")


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list = []
    value.append(value)
    with pytest.raises(InvalidValueError, match="nested deeper"):
        encode_json(value)
