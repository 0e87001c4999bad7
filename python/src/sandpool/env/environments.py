"""Whatever the user gave, behind one shape: reset(seed, options) and step(action)."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING

from sandpool.env.generators import reseed_np_random

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Environment:
    """reset(seed, options) -> (observation, info) and step(action) -> 4 or 5 values, whatever the user gave."""

    def __init__(self, target: Any, reset: Callable[[Any, Any], tuple[Any, Any]], step: Callable[[Any], Any]) -> None:
        self.target = target
        self.reset = reset
        self.step = step
        self.close: Callable[[], Any] | None = None
        self.announced: Any = None  # the object whose spaces, metadata and render mode hello tells
        self.action_space: Any = None

    def reseed(self, seed: int) -> list[str]:
        """Give it a new random stream; returns the names of what was reseeded."""
        return reseed_np_random(getattr(self.target, "unwrapped", self.target), seed)


def environment_of(given: Any) -> Environment:
    """The environment for an object with `reset` and `step`: Gymnasium's, old gym's or one's own."""
    if inspect.isclass(given):
        raise TypeError(f"the environment is the class {given.__qualname__}; expected an object: serve({given.__qualname__}(…))")
    missing = [name for name in ("reset", "step") if not callable(getattr(given, name, None))]
    if missing:
        raise TypeError(f"the environment is {given!r:.200}, without {' and '.join(missing)}; expected an object with reset and step")
    gymnasium = sys.modules.get("gymnasium")
    strict = gymnasium is not None and isinstance(given, gymnasium.Env)
    environment = Environment(given, _reset_of(given.reset, False, strict, getattr(given, "seed", None)), given.step)
    close = getattr(given, "close", None)
    environment.close = close if callable(close) else None
    environment.announced = given
    environment.action_space = getattr(given, "action_space", None)
    return environment


def environment_of_functions(reset: Any, step: Any) -> Environment:
    """The environment for two functions; `call`, `get` and `set` see the object they are bound to, or their module."""
    owner = getattr(step, "__self__", None)
    target = owner if owner is not None else sys.modules.get(getattr(step, "__module__", None) or "__main__")
    return Environment(target, _reset_of(reset, True, False, None), step)


def _reset_of(function: Any, by_place: bool, strict: bool, seed_method: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Look at the signature once and return reset(seed, options) -> (observation, info)."""
    takes_seed, takes_options, in_order, always_options = _reset_parameters(function, by_place)

    def call(seed: Any, options: Any) -> tuple[Any, Any]:
        if options is not None and not takes_options:
            raise TypeError(
                f"reset received options {options!r:.200}, but the environment's reset takes none; add a parameter named options"
            )
        if in_order:
            result = function(seed, options) if takes_options else function(seed)
        else:
            named = {"seed": seed} if takes_seed else {}
            if options is not None or always_options:
                named["options"] = options
            if not takes_seed and seed is not None and callable(seed_method):
                seed_method(seed)
            result = function(**named)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
            return result
        if strict:
            raise TypeError(f"reset returned {result!r:.200}; expected (observation, info), as gymnasium.Env does")
        return result, None

    return call


def _reset_parameters(function: Any, by_place: bool) -> tuple[bool, bool, bool, bool]:
    """Whether reset takes a seed, takes options, is told them by their places rather than by name, and needs options each time."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True, True, False, False
    kind = inspect.Parameter
    any_keyword = any(p.kind is kind.VAR_KEYWORD for p in parameters.values())
    named = [n for n in ("seed", "options") if any_keyword or (n in parameters and parameters[n].kind is not kind.POSITIONAL_ONLY)]
    places = [p for p in parameters.values() if p.kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in places if p.default is kind.empty]
    if by_place and places and (places[0].name not in named or set(required) - set(named)):
        return True, len(places) > 1 and (places[1].name == "options" or len(required) > 1), True, False
    always_options = "options" in parameters and parameters["options"].default is kind.empty
    return "seed" in named, "options" in named, False, always_options


def five_values(result: Any) -> tuple[Any, Any, Any, Any, Any]:
    """A step's result as five values; the four of old gym's are told apart by `TimeLimit.truncated`."""
    if isinstance(result, (tuple, list)) and len(result) == 5:
        return tuple(result)
    if isinstance(result, (tuple, list)) and len(result) == 4:
        observation, reward, done, info = result
        truncated = bool(done) and bool((info or {}).get("TimeLimit.truncated"))
        return observation, reward, bool(done) and not truncated, truncated, info
    size = f"{len(result)} values" if isinstance(result, (tuple, list)) else f"a {type(result).__name__}"
    raise TypeError(
        f"step returned {size}: {result!r:.200}; expected (observation, reward, terminated, truncated, info) "
        "or old gym's (observation, reward, done, info)"
    )


def plain_reward(reward: Any) -> float:
    value = reward.item() if hasattr(reward, "item") and getattr(reward, "size", 1) == 1 else reward
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__") or getattr(value, "size", 1) != 1:
        raise TypeError(f"reward is {reward!r:.200} ({type(reward).__name__}); expected one number")
    return float(value)
