"""Spaces of every kind have a JSON form, and actions arrive as iterating Gymnasium's batched space gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandpool.env.casting import caster_of
from sandpool.env.decoding import decode
from sandpool.env.describing import space_of
from sandpool.env.encoding import Output, encode

np = pytest.importorskip("numpy")
spaces = pytest.importorskip("gymnasium").spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate  # noqa: E402

SPACES = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "box of two bounds": spaces.Box(np.array([0, -np.inf]), np.array([np.inf, 1]), dtype=np.float64),
    "scalar box": spaces.Box(0, 1, (), np.float32),
    "image": spaces.Box(0, 255, (4, 5, 3), np.uint8),
    "discrete": spaces.Discrete(5),
    "discrete from -2": spaces.Discrete(5, start=-2),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "multi-discrete in two dimensions": spaces.MultiDiscrete([[3, 4], [5, 6]]),
    "multi-binary": spaces.MultiBinary(4),
    "multi-binary in two dimensions": spaces.MultiBinary([2, 3]),
    "text": spaces.Text(8, min_length=1, charset="ab$"),
    "dict": spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(-1, 1, (2,)), "$x": spaces.MultiBinary(2)}),
    "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Text(3)])]),
    "sequence": spaces.Sequence(spaces.Box(-1, 1, (2,))),
    "stacked sequence": spaces.Sequence(spaces.Box(-1, 1, (2,)), stack=True),
    "sequence of discrete": spaces.Sequence(spaces.Discrete(4)),
    "graph": spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
    "graph without edges": spaces.Graph(spaces.Box(-1, 1, (2,)), None),
}
if hasattr(spaces, "OneOf"):  # Gymnasium 1.0 and later
    SPACES["one of"] = spaces.OneOf([spaces.Discrete(2), spaces.Box(-1, 1, (2,))])


def encoded(value: Any) -> Any:
    output = Output()
    output.lenient = True
    return json.loads(encode(value, output))


def listed(value: Any) -> Any:
    """What the agent sends to an environment without the feature raw: arrays as nested lists, scalars as plain numbers."""
    if isinstance(value, dict) and set(value) == {"$nd"}:
        return np.asarray(decode(value)).tolist()
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    return [listed(item) for item in value] if isinstance(value, list) else value


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, (tuple, list)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (np.ndarray, np.generic)):
        return left.dtype == right.dtype and left.shape == right.shape and bool((left == right).all())
    return bool(left == right)


@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("form", ["tagged", "listed"])
def test_an_action_is_cast_to_what_the_batched_space_gives(name: str, form: str) -> None:
    space = SPACES[name]
    space.seed(3)
    cast = caster_of(space)
    for _ in range(10):
        samples = [space.sample(), space.sample()]
        batched = concatenate(space, samples, create_empty_array(space, 2))
        for sample, expected in zip(samples, iterate(batch_space(space, 2), batched), strict=True):
            sent = encoded(sample)
            action = cast(listed(sent) if form == "listed" else sent, b"")
            assert same(action, expected), (action, expected)
            assert space.contains(action)


def test_raw_actions_are_the_same_arrays() -> None:
    cast = caster_of(SPACES["box"])
    values = np.array([0.5, -1, 1], "<f4")
    action = cast({"$nd": ["<f4", [3], 2, 12]}, b"xx" + values.tobytes())
    assert same(action, values)
    action = cast({"$nd": ["<f8", [3], 0, 24]}, values.astype("<f8").tobytes())
    assert same(action, values)


@pytest.mark.parametrize(
    ("name", "action", "said"),
    [
        ("discrete", 1.5, "expected one integer"),
        ("discrete", "1", "expected one integer"),
        ("discrete", [1], "argument must be"),
        ("discrete", None, "argument must be"),
        ("box", [1, 2], r"its shape is \(2,\), expected \(3,\)"),
        ("box", 1, r"its shape is \(\), expected \(3,\)"),
        ("box", ["a", "b", "c"], "could not convert string"),
        ("box", {"a": 1}, "must be a"),
        ("image", [[[0] * 3] * 5] * 3, r"its shape is \(3, 5, 3\)"),
        ("multi-discrete", [1.5, 2], "expected integers"),
        ("multi-binary", [0, 1, 1, 300], "expected integers"),
        ("dict", {"b": 1}, "expected exactly the keys \\$\\$x, a, b"),
        ("tuple", [1], "expected a tuple of 2"),
        ("one of", [2, 1], "expected \\(index below 2, value\\)"),
        ("graph", [1], r"expected a \$graph"),
    ],
)
def test_an_action_that_does_not_fit_is_refused_with_what_would(name: str, action: Any, said: str) -> None:
    if name not in SPACES:
        pytest.skip("this gymnasium has no such space")
    with pytest.raises(ValueError, match=f"(?s)the action .* does not fit .*{said}"):
        caster_of(SPACES[name])(action, b"")


def test_spaces_say_all_that_is_needed_to_make_them_again() -> None:
    known = {name: encoded(space_of(space)) for name, space in SPACES.items()}
    low = {"$nd": ["<f4", [3], "AACAvwAAgL8AAIC/"]}
    high = {"$nd": ["<f4", [3], "AACAPwAAgD8AAIA/"]}
    assert known["box"] == {"type": "Box", "dtype": "<f4", "shape": [3], "low": low, "high": high}
    assert known["image"]["dtype"] == "|u1"
    assert known["discrete from -2"] == {"type": "Discrete", "n": 5, "start": -2, "dtype": "<i8"}
    assert known["multi-discrete in two dimensions"] == {
        "type": "MultiDiscrete",
        "nvec": [[3, 4], [5, 6]],
        "start": [[0, 0], [0, 0]],
        "dtype": "<i8",
    }
    assert known["multi-binary"] == {"type": "MultiBinary", "n": 4}
    assert known["multi-binary in two dimensions"] == {"type": "MultiBinary", "n": [2, 3]}
    assert known["text"]["max"] == 8
    assert sorted(known["text"]["charset"]) == ["$", "a", "b"]
    assert [key for key, _ in known["dict"]["spaces"]] == list(SPACES["dict"].spaces)
    assert [inner["type"] for inner in known["tuple"]["spaces"]] == ["Discrete", "Tuple"]
    assert (known["sequence"]["stack"], known["stacked sequence"]["stack"]) == (False, True)
    assert known["graph"]["edge"]["type"] == "Discrete"
    assert known["graph without edges"]["edge"] is None
    if "one of" in known:
        assert [inner["type"] for inner in known["one of"]["spaces"]] == ["Discrete", "Box"]


def test_a_space_of_ones_own_is_its_repr_or_its_base() -> None:
    class Own(spaces.Space):
        def __repr__(self) -> str:
            return "Own(\u00e9)"

    class Derived(spaces.Discrete):
        pass

    assert encoded(space_of(Own())) == {"type": "Custom", "repr": "Own(\\xe9)"}
    assert encoded(space_of(Derived(3)))["type"] == "Discrete"


def test_the_default_repr_of_a_custom_space_does_not_tell_its_address() -> None:
    class Plain(spaces.Space):
        """A space without a repr of its own."""

    assert space_of(Plain()) == space_of(Plain())
    assert space_of(Plain())["repr"].endswith("Plain object>")


def test_a_key_that_is_no_text_is_refused_and_never_renamed() -> None:
    with pytest.raises(TypeError, match=r"the key 1 \(int\), expected text"):
        space_of(spaces.Tuple([spaces.Dict({1: spaces.Discrete(2)})]))
