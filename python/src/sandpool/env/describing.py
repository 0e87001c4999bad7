"""What an environment says of itself: its spaces and the members of its hello reply."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from sandpool.env.encoding import Output, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROTOCOL = 1


def describe(target: Any, features: tuple[str, ...] = (), rows: int = 1) -> str:
    """The members of a hello reply that say what the environment is, as JSON text without the braces."""
    return members_of_hello(announced_by(target), features, rows)


def announced_by(target: Any) -> dict[str, Any]:
    """What an environment announces, as values that can be encoded."""
    spec = getattr(target, "spec", None)
    name = spec if isinstance(spec, str) else getattr(spec, "id", None)
    metadata = getattr(target, "metadata", None)
    render_mode = getattr(target, "render_mode", None)
    return {
        "observation_space": space_of(getattr(target, "observation_space", None)),
        "action_space": space_of(getattr(target, "action_space", None)),
        "metadata": {key: _plain(value) for key, value in metadata.items()} if isinstance(metadata, dict) else {},
        "render_mode": render_mode if isinstance(render_mode, str) else None,
        "spec": name if isinstance(name, str) else None,
    }


def members_of_hello(announced: dict[str, Any], features: tuple[str, ...], rows: int) -> str:
    output = Output()
    output.lenient = True
    known = [*features, "raw", *(["render"] if announced["render_mode"] is not None else [])]
    members = ",".join(f'"{name}":{encode(value, output)}' for name, value in announced.items())
    return f'"protocol":{PROTOCOL},"features":{encode(known, output)},"rows":{rows},{members}'


def _plain(value: Any) -> Any:
    """A member of an enumeration, such as Gymnasium's AutoresetMode, as its value."""
    return value.value if isinstance(value, Enum) else value


def space_kind(space: Any) -> str:
    """The name of the Gymnasium (or old gym) space class it is or derives from, else `Custom`."""
    for cls in type(space).__mro__:
        if cls.__module__.split(".")[0] in ("gymnasium", "gym") and cls.__name__ in _SPACES:
            return cls.__name__
    return "Custom"


def without_address(text: str) -> str:
    """A default repr without the object's address, which says nothing of the object."""
    import re

    return re.sub(r" at 0x[0-9a-f]+", "", text)


def space_of(space: Any) -> Any:
    """The space as JSON-like values, None for None."""
    if space is None:
        return None
    kind = space_kind(space)
    if kind == "Custom":
        return {"type": "Custom", "repr": without_address(ascii(space))[:4000]}
    return dict({"type": kind}, **_SPACES[kind](space))


def _text_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    msg = f"a Dict space has the key {key!r} ({type(key).__name__}), expected text. Wrap the environment so that it is {str(key)!r}."
    raise TypeError(msg)


def little_endian(dtype: Any) -> Any:
    """The dtype in the byte order in which numbers travel."""
    return dtype.newbyteorder("<") if dtype.str[0] == ">" else dtype


def _box_of(space: Any) -> dict[str, Any]:
    return {"dtype": little_endian(space.dtype).str, "shape": list(space.shape), "low": space.low, "high": space.high}


def _integer(value: Any) -> int:
    return int(value)


_SPACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "Box": _box_of,
    "Discrete": lambda s: {"n": _integer(s.n), "start": _integer(getattr(s, "start", 0)), "dtype": little_endian(s.dtype).str},
    "MultiDiscrete": lambda s: {
        "nvec": s.nvec.tolist(),
        "start": s.start.tolist() if hasattr(s, "start") else (s.nvec * 0).tolist(),
        "dtype": little_endian(s.dtype).str,
    },
    "MultiBinary": lambda s: {"n": _integer(s.n) if not hasattr(s.n, "__len__") else [_integer(n) for n in s.n]},
    "Text": lambda s: {"min": s.min_length, "max": s.max_length, "charset": s.characters},
    "Dict": lambda s: {"spaces": [[_text_key(key), space_of(one)] for key, one in s.spaces.items()]},
    "Tuple": lambda s: {"spaces": [space_of(one) for one in s.spaces]},
    "Sequence": lambda s: {"space": space_of(s.feature_space), "stack": bool(getattr(s, "stack", False))},
    "Graph": lambda s: {"node": space_of(s.node_space), "edge": space_of(s.edge_space)},
    "OneOf": lambda s: {"spaces": [space_of(one) for one in s.spaces]},
}
