"""Attributes of an environment, looked for through its wrappers."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def layers(target: Any) -> Iterator[Any]:
    """The object and what it wraps, outermost first."""
    seen: list[Any] = []
    while target is not None and not any(target is one for one in seen):
        yield target
        seen.append(target)
        target = getattr(target, "env", None) if not inspect.ismodule(target) else None


def get_attribute(target: Any, name: str) -> Any:
    if hasattr(target, "get_wrapper_attr"):
        return target.get_wrapper_attr(name)
    for layer in layers(target):
        if hasattr(layer, name):
            return getattr(layer, name)
    raise AttributeError(f"neither {type(target).__name__} nor what it wraps has an attribute {name!r}")


def set_attribute(target: Any, name: str, value: Any) -> None:
    """Set it where it stands (a wrapper that only forwards it does not count), else on the outermost wrapper, as Gymnasium does."""
    for layer in layers(target):
        if name in getattr(layer, "__dict__", {}) or hasattr(type(layer), name):
            setattr(layer, name, value)
            return
    setattr(target, name, value)


def has_attribute(target: Any, name: str) -> bool:
    return any(hasattr(layer, name) for layer in layers(target))


def call_by_name(target: Any, name: str, args: Any, kwargs: Any) -> Any:
    """Call a function of the environment, or read an attribute that is none."""
    if name in ("reset", "step", "close"):
        raise ValueError(f"call of {name!r}: use the pool's own {name}() instead, which keeps its seeds and episodes right")
    found = get_attribute(target, name)
    if callable(found):
        return found(*args, **kwargs)
    if args or kwargs:
        raise TypeError(f"{name!r} is a {type(found).__name__}, not a function; call it without arguments to read it")
    return found


def is_wrapped(target: Any, path: str) -> bool:
    """Whether one of the environment's wrappers is of the class with that path."""
    return any(_is_instance(layer, path) for layer in layers(target) if hasattr(layer, "env"))


def _is_instance(layer: Any, path: str) -> bool:
    """Whether the layer is of the class with that path: the one it is defined at or one it is imported from."""
    module, _, name = path.rpartition(".")
    known = getattr(sys.modules.get(module), name, None)
    if isinstance(known, type) and isinstance(layer, known):
        return True
    return any(f"{cls.__module__}.{cls.__qualname__}" == path for cls in type(layer).__mro__)
