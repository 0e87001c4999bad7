"""States as bytes. They are made and read inside one pool's sandboxes only, all of which run the same program."""

from __future__ import annotations

import contextlib
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
    alike in all of them and has no pickle: modules, lambdas and specifications that stand directly in an attribute. What a lambda
    or an inner function holds in its closure is told.
    """
    own = parts.get("layers", ())
    known, functions = _known_of(target, {id(layer) for layer in own})
    told = {
        **parts,
        "layers": [(type(layer).__qualname__, _state_of(layer)) for layer in own],
        "closures": [(function, function.__qualname__, _closure_of(function)) for function in functions],
    }
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


def apply_closures(told: list[tuple[Any, str, dict[int, Any]]]) -> None:
    """Give the functions in attributes of an environment what those of another held."""
    for function, name, contents in told:
        if getattr(function, "__qualname__", None) != name:
            raise ValueError(f"received what the function {name} held; expected it in the same attribute, where {function!r:.200} is")
        for place, value in contents.items():
            function.__closure__[place].cell_contents = value


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


def _known_of(target: Any, told: set[int]) -> tuple[dict[int, tuple[Any, ...]], list[types.FunctionType]]:
    """What is not pickled, by its identity: the layers, and what stands in their attributes and is the same in each process.

    Besides, the functions among it that stand in layers that are told.
    """
    known: dict[int, tuple[Any, ...]] = {}
    functions: list[types.FunctionType] = []
    for number, layer in enumerate(layers(target)):
        for name, value in getattr(layer, "__dict__", {}).items():
            if name in ("spec", "_cached_spec") and value is not None:
                known[id(value)] = (number, name)
            else:
                _note(value, (number, name), known, functions if id(layer) in told else [])
    known.update((id(layer), (number,)) for number, layer in enumerate(layers(target)))
    return known, functions


def _note(value: Any, place: tuple[Any, ...], known: dict[int, tuple[Any, ...]], functions: list[types.FunctionType]) -> None:
    nameless = isinstance(value, types.FunctionType) and "<" in value.__qualname__
    if id(value) in known or not (nameless or isinstance(value, types.ModuleType)):
        return
    known[id(value)] = place
    if nameless and value.__closure__:
        functions.append(value)
        for cell, held in _closure_of(value).items():
            _note(held, (*place, cell), known, functions)


def _closure_of(function: types.FunctionType) -> dict[int, Any]:
    """What its cells hold, by their places; without those that nothing was assigned to yet."""
    contents = {}
    for place, cell in enumerate(function.__closure__ or ()):
        with contextlib.suppress(ValueError):
            contents[place] = cell.cell_contents
    return contents


def _pickle(value: Any, known: dict[int, tuple[Any, ...]]) -> bytes:
    file = io.BytesIO()
    try:
        _Pickler(file, known).dump(value)
    except Exception as error:
        culprits = [*_culprits(value, known)]
        if not culprits:
            raise
        raise TypeError(f"{error}: in {', '.join(culprits[:5])}; give the environment get_state() and set_state(state)") from error
    return file.getvalue()


def _culprits(told: dict[str, Any], known: dict[int, tuple[Any, ...]]) -> Any:
    """The names of attributes that do not pickle, and of functions that hold what does not."""
    held = [("the closure of", {name: contents}) for _, name, contents in told["closures"]]
    for name, state in [*told["layers"], *held]:
        for attribute, value in state.items() if isinstance(state, dict) else ():
            try:
                _Pickler(io.BytesIO(), known).dump(value)
            except Exception:
                yield f"{name} {attribute}" if " " in name else f"{name}.{attribute}"


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
        if len(place) == 1:
            return layer
        value = vars(layer)[place[1]]
        for cell in place[2:]:
            value = value.__closure__[cell].cell_contents
        return value
