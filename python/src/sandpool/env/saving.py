"""How the state of an environment is had and put back where its process is not copied: by whose functions, or by its attributes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from sandpool.env.attributes import layers
from sandpool.env.generators import np_random_state, set_np_random_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from sandpool.env.environments import Environment

PAIRS = (("get_state", "set_state"), ("clone_state", "restore_state"))


class Saver:
    """The functions given to `serve`, else the environment's own methods, else all attributes of a plain Python object."""

    def __init__(self, get_state: Callable[..., Any] | None, set_state: Callable[..., Any] | None) -> None:
        if (get_state is None) != (set_state is None):
            raise TypeError("serve() takes get_state= and set_state= together; received one of them")
        self.get_state, self.set_state = get_state, set_state
        self.takes_environment = False
        if get_state is not None and set_state is not None and not _is_pair(get_state, set_state):
            self.takes_environment = _takes(get_state, 1) and _takes(set_state, 2)
            if not self.takes_environment:
                raise TypeError(
                    f"received get_state{_signature(get_state)} and set_state{_signature(set_state)}; expected get_state() and "
                    "set_state(state), or get_state(environment) and set_state(environment, state)"
                )

    def refusal(self, environment: Environment, packed: bool) -> str | None:
        """Why there is no way to the environment's state, None where there is one."""
        if self.get_state is not None:
            if packed and not self.takes_environment:
                return "get_state() does not say of which of a process's environments; expected get_state(environment)"
            return None
        if _methods_of(environment.target) is not None:
            return None
        if environment.announced is None:
            return "plain functions have no state of their own; give serve(get_state=…, set_state=…)"
        for layer in layers(environment.target):
            kind = type(layer)
            if any(cls.__name__ == "EzPickle" for cls in kind.__mro__):
                return f"{kind.__name__} derives from EzPickle, whose pickle forgets the state; give it get_state() and set_state(state)"
            if any("__reduce__" in vars(cls) or "__reduce_ex__" in vars(cls) for cls in kind.__mro__[:-1]):
                return f"{kind.__name__} is no plain object: it has a __reduce__ of its own; give it get_state() and set_state(state)"
        return None

    def is_told(self, environment: Environment) -> bool:
        """Whether functions or methods say what the state is, and not all attributes of the object."""
        return self.get_state is not None or _methods_of(environment.target) is not None

    def save(self, environment: Environment) -> dict[str, Any]:
        """The state in parts, which `pickle_parts` makes bytes of."""
        parts: dict[str, Any] = {"layers": self.layers_of(environment)}
        methods = _methods_of(environment.target)
        if self.get_state is not None:
            parts["own"] = self.get_state(environment.target) if self.takes_environment else self.get_state()
        elif methods is not None:
            parts["own"] = methods[1]()
            parts["np_random"] = np_random_state(getattr(environment.target, "unwrapped", environment.target))
        return parts

    def layers_of(self, environment: Environment) -> list[Any]:
        """The objects whose attributes are part of the state: all, with an environment's own methods its other wrappers."""
        if self.get_state is not None:
            return []
        methods = _methods_of(environment.target)
        return [layer for layer in layers(environment.target) if methods is None or (layer is not methods[0] and hasattr(layer, "env"))]

    def restore(self, environment: Environment, parts: dict[str, Any]) -> None:
        """Put back what is not the attributes of layers."""
        if self.set_state is not None:
            self.set_state(*([environment.target] if self.takes_environment else []), parts["own"])
            return
        methods = _methods_of(environment.target)
        if methods is not None:
            methods[2](parts["own"])
            set_np_random_state(getattr(environment.target, "unwrapped", environment.target), parts["np_random"])


def _methods_of(target: Any) -> tuple[Any, Callable[[], Any], Callable[[Any], Any]] | None:
    """The outermost object that has a pair of methods for its state, and the two."""
    for layer in layers(target):
        for getter, setter in PAIRS:
            get, put = _own(layer, getter), _own(layer, setter)
            if get is not None and put is not None and _is_pair(get, put):
                return layer, (lambda found=get: found(**_complete(found))), put
    return None


def _own(layer: Any, name: str) -> Any:
    """A method that the object has itself: old wrappers forward what they do not have, with a warning."""
    if name in getattr(layer, "__dict__", {}) or hasattr(type(layer), name):
        found = getattr(layer, name)
        return found if callable(found) else None
    return None


def _complete(get: Callable[..., Any]) -> dict[str, Any]:
    """Arcade games leave their random generator out of a clone unless they are told."""
    signature = _signature(get)
    return {"include_rng": True} if signature is not None and "include_rng" in signature.parameters else {}


def _is_pair(get: Callable[..., Any], put: Callable[..., Any]) -> bool:
    return _takes(get, 0) and _takes(put, 1)


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments; one without a signature, as some in C have none, is believed."""
    signature = _signature(function)
    try:
        if signature is not None:
            signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None
