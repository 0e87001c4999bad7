"""States as bytes. They are made and read inside one pool's sandboxes only, all of which run the same program."""

from __future__ import annotations

import io
import pickle
import types
import zlib
from typing import TYPE_CHECKING

from sandpool.env.attributes import layers

if TYPE_CHECKING:
    from typing import Any

STATE_MAX = 12_000_000  # as base64 it still fits a row's longest message
_PICKLE_BEGINS = b"\x80"


def pickle_parts(target: Any, parts: dict[str, Any]) -> bytes:
    """The parts of a state, each of its `layers` as its class's name and attributes.

    What refers to an object of the chain of wrappers will refer to the one of the environment that takes the state; so will what is
    alike in all of them and has no pickle: modules, lambdas and specifications that stand directly in an attribute.
    """
    known = _known_of(target)
    told = {**parts, "layers": [(type(layer).__qualname__, _state_of(layer)) for layer in parts.get("layers", ())]}
    data = _pickle(told, known)
    if len(data) > STATE_MAX:
        data = zlib.compress(data, 1)
    if len(data) > STATE_MAX:
        raise ValueError(f"the state has {len(data)} bytes, compressed; at most {STATE_MAX} can be kept of an environment that cannot fork")
    return data


def unpickle_parts(target: Any, data: bytes) -> dict[str, Any]:
    """The parts of a state, with `layers` as classes' names and attributes."""
    if data[:1] != _PICKLE_BEGINS:
        data = zlib.decompress(data)
    parts: dict[str, Any] = _Unpickler(data, [*layers(target)]).load()
    return parts


def apply_layers(into: list[Any], told: list[tuple[str, Any]]) -> None:
    """Give the layers of an environment the attributes that those of another had."""
    if [type(layer).__qualname__ for layer in into] != [name for name, _ in told]:
        raise ValueError(
            f"received the state of {' of '.join(name for name, _ in told) or 'nothing'}; "
            f"expected one of {' of '.join(type(layer).__qualname__ for layer in into) or 'nothing'}"
        )
    for layer, (_, state) in zip(into, told):
        _set_state_of(layer, state)


def _state_of(layer: Any) -> Any:
    """What a pickle of the object holds besides its class. Raises TypeError where that is not all of it."""
    _, _, state, items, pairs = (*layer.__reduce_ex__(2), None, None, None)[:5]
    if items is not None or pairs is not None:
        raise TypeError(
            f"{type(layer).__qualname__} is a list or dict itself, not a plain object; give it get_state() and set_state(state)"
        )
    return state


def _set_state_of(layer: Any, state: Any) -> None:
    if hasattr(type(layer), "__setstate__"):
        layer.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if hasattr(layer, "__dict__"):
        vars(layer).clear()
        vars(layer).update(attributes or {})
    for name, value in (slots or {}).items():
        setattr(layer, name, value)


def _known_of(target: Any) -> dict[int, tuple[Any, ...]]:
    """What is not pickled, by its identity: the layers, and what stands in their attributes and is the same in each process."""
    known: dict[int, tuple[Any, ...]] = {}
    for number, layer in enumerate(layers(target)):
        for name, value in getattr(layer, "__dict__", {}).items():
            nameless = isinstance(value, types.FunctionType) and "<" in value.__qualname__
            if nameless or isinstance(value, types.ModuleType) or (name in ("spec", "_cached_spec") and value is not None):
                known[id(value)] = (number, name)
        known[id(layer)] = (number,)
    return known


def _pickle(value: Any, known: dict[int, tuple[Any, ...]]) -> bytes:
    file = io.BytesIO()
    try:
        _Pickler(file, known).dump(value)
    except Exception as error:
        culprits = [*_culprits(value["layers"], known)]
        if not culprits:
            raise
        raise TypeError(f"{error}: in {', '.join(culprits[:5])}; give the environment get_state() and set_state(state)") from error
    return file.getvalue()


def _culprits(told: list[tuple[str, Any]], known: dict[int, tuple[Any, ...]]) -> Any:
    """The names of attributes that do not pickle."""
    for name, state in told:
        for attribute, value in state.items() if isinstance(state, dict) else ():
            try:
                _Pickler(io.BytesIO(), known).dump(value)
            except Exception:
                yield f"{name}.{attribute}"


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, known: dict[int, tuple[Any, ...]]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.known = known

    def persistent_id(self, value: Any) -> Any:
        return self.known.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, chain: list[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self.chain = chain

    def persistent_load(self, place: Any) -> Any:
        layer = self.chain[place[0]]
        return layer if len(place) == 1 else vars(layer)[place[1]]
