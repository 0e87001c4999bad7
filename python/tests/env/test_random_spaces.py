"""Any space of Gymnasium's comes out of an environment as itself, and its samples travel out and in unchanged, through the client."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

np = pytest.importorskip("numpy")
gymnasium = pytest.importorskip("gymnasium")

from gymnasium import spaces  # noqa: E402
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate  # noqa: E402

from env.test_spaces import same  # noqa: E402
from sandpool.env.cast_rows import ActionCaster  # noqa: E402
from sandpool.env.casting import caster_of  # noqa: E402
from sandpool.env.describing import space_of  # noqa: E402
from sandpool.env.encoding import Output, encode  # noqa: E402
from sandpool.env.stack import Stack  # noqa: E402
from sandpool.spaces import to_gymnasium  # noqa: E402
from sandpool.values.decode import decode_json  # noqa: E402
from sandpool.values.encode import encode_json  # noqa: E402

NEWER = hasattr(spaces, "OneOf")
DTYPED = "dtype" in inspect.signature(spaces.Discrete).parameters
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*precision lowered"),
    pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array"),
]

SHAPES = st.lists(st.integers(1, 3), max_size=3).map(tuple)
KEYS = st.text(st.sampled_from("$aé"), min_size=1, max_size=3)


@st.composite
def boxes(draw: st.DrawFn) -> spaces.Box:
    dtype = np.dtype(draw(st.sampled_from(["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])))
    low, high = (0, 100) if dtype.kind == "u" else (-100, 100)
    if dtype.kind == "f" and draw(st.booleans()):
        low, high = draw(st.sampled_from([(-np.inf, np.inf), (-1, np.inf), (-np.inf, 1)]))
    return spaces.Box(low, high, draw(SHAPES), dtype.type)


@st.composite
def multi_discretes(draw: st.DrawFn) -> spaces.MultiDiscrete:
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    size = int(np.prod(shape))
    dtype = np.dtype(draw(st.sampled_from(["i8", "i4", "i1", "u1"])))
    counts = np.array(draw(st.lists(st.integers(1, 20), min_size=size, max_size=size)), dtype).reshape(shape)
    starts = np.array(draw(st.lists(st.integers(0 if dtype.kind == "u" else -9, 9), min_size=size, max_size=size)), dtype).reshape(shape)
    return spaces.MultiDiscrete(counts, dtype.type, start=starts)


@st.composite
def discretes(draw: st.DrawFn) -> spaces.Discrete:
    count, start = draw(st.integers(1, 50)), draw(st.integers(-9, 9))
    dtype = draw(st.sampled_from([np.int64, np.int32, np.int8]))
    return spaces.Discrete(count, start=start, **({"dtype": dtype} if DTYPED and dtype is not np.int64 else {}))


TEXTS = st.builds(
    lambda low, more, charset: spaces.Text(low + more, min_length=low, charset="".join(sorted(set(charset)))),
    st.integers(0, 3),
    st.integers(1, 5),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
)
BINARIES = st.builds(spaces.MultiBinary, st.one_of(st.integers(1, 5), st.lists(st.integers(1, 3), min_size=1, max_size=2)))
GRAPHS = st.builds(spaces.Graph, st.one_of(boxes().filter(lambda box: box.shape), discretes()), st.one_of(st.none(), boxes(), discretes()))
FIXED = st.one_of(boxes(), discretes(), multi_discretes(), BINARIES)


def nested(leaves: st.SearchStrategy[Any], inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.dictionaries(KEYS, inner, min_size=1, max_size=3).map(spaces.Dict),
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
    )


FIXED_SPACES = st.recursive(FIXED, lambda inner: nested(FIXED, inner), max_leaves=6)
LEAVES = st.one_of(FIXED, TEXTS, GRAPHS, st.builds(spaces.Sequence, FIXED, stack=st.booleans()))
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        nested(LEAVES, inner),
        st.builds(spaces.Sequence, inner),
        *([st.lists(inner, min_size=1, max_size=3).map(spaces.OneOf)] if NEWER else []),
    ),
    max_leaves=6,
)
SOME = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def announced(space: Any) -> Any:
    """The space as the client gets it."""
    output = Output()
    output.lenient = True
    return decode_json(encode(space_of(space), output))


def lenient(value: Any) -> str:
    output = Output()
    output.lenient = True
    return encode(value, output)


@SOME
@given(SPACES)
def test_a_space_is_announced_as_itself(space: Any) -> None:
    again = to_gymnasium(announced(space))
    assert again == space
    assert type(again) is type(space)
    assert getattr(again, "dtype", None) == getattr(space, "dtype", None)


@SOME
@given(SPACES, st.integers(0, 2**31))
def test_samples_travel_out_unchanged(space: Any, seed: int) -> None:
    space.seed(seed)
    sample = space.sample()
    arrived = decode_json(lenient(sample))
    assert alike(arrived, sample)
    assert space.contains(as_gymnasium(arrived)) == space.contains(sample)  # some of 0.29's graphs are not in their own space


@SOME
@given(SPACES, st.integers(0, 2**31))
def test_actions_travel_in_and_arrive_as_the_batched_space_gives_them(space: Any, seed: int) -> None:
    space.seed(seed)
    samples = [space.sample() for _ in range(3)]
    cast = caster_of(space)
    single = [cast(json.loads(encode_json(sample)), b"") for sample in samples]
    together, misfits = ActionCaster(space).cast_rows([json.loads(encode_json(sample)) for sample in samples], b"", 3)
    assert misfits == []
    batched = concatenate(space, samples, create_empty_array(space, 3))
    for one, other, expected in zip(single, together, iterate(batch_space(space, 3), batched), strict=True):
        assert same(one, scalars(expected)), (one, expected)
        assert same(other, scalars(expected)), (other, expected)
    assert [space.contains(one) for one in single] == [space.contains(sample) for sample in samples]


@SOME
@given(FIXED_SPACES, st.integers(0, 2**31))
def test_stacked_observations_are_gymnasiums_batch(space: Any, seed: int) -> None:
    space.seed(seed)
    samples = [space.sample() for _ in range(3)]
    output = Output()
    stack = Stack(space, 3, output)
    assert stack.is_array
    for place, sample in enumerate(samples):
        stack.put(place, sample)
    output.start()
    output.lenient = True
    batched = concatenate(space, samples, create_empty_array(space, 3))
    assert alike(decode_json(stack.text(3, output)), batched)


def alike(left: Any, right: Any) -> bool:
    """The same, whatever the classes of dicts and graphs are called."""
    if isinstance(right, dict):
        return isinstance(left, dict) and list(left) == list(right) and all(alike(left[key], right[key]) for key in right)
    if isinstance(right, (tuple, list)):
        return (
            isinstance(left, type(right) if type(right) in (tuple, list) else tuple)
            and len(left) == len(right)
            and all(map(alike, left, right))
        )
    if isinstance(right, (np.ndarray, np.generic)):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    return type(left) is type(right) and bool(left == right)


def scalars(value: Any) -> Any:
    """Arrays without dimensions as numpy scalars: Gymnasium samples the one for float boxes and the other for whole ones."""
    if isinstance(value, dict):
        return type(value)((key, scalars(item)) for key, item in value.items())
    if type(value) is tuple:
        return tuple(map(scalars, value))
    return value[()] if isinstance(value, np.ndarray) and value.shape == () else value


def as_gymnasium(value: Any) -> Any:
    """The client's graphs as Gymnasium's, which its own spaces ask for."""
    if isinstance(value, tuple):
        parts = [as_gymnasium(item) for item in value]
        return spaces.GraphInstance(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, dict):
        return {key: as_gymnasium(item) for key, item in value.items()}
    return value
