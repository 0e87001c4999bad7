"""The one environment of a process, asked with the plain messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sandpool.env.attributes import get_attribute, is_instance, layers, set_attribute
from sandpool.env.decoding import decode
from sandpool.env.encoding import NON_FINITE, Output, encode
from sandpool.env.environments import five_values, plain_reward
from sandpool.env.generators import reseed_generators
from sandpool.env.lines import name_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

    from sandpool.env.environments import Environment


class Row:
    """Each method answers one request; its errors are the session's to report."""

    HANDLERS: ClassVar[dict[str, Callable[[Row, Any, dict[str, Any], bytes], bytes]]] = {}

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.seeded = False
        self.output = Output()

    def step(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        environment = self.environment
        if "action" not in request:
            raise ValueError(f"step has no member action; received the members {', '.join(request)}")
        result = environment.step(environment.cast(request["action"], raw))
        if type(result) is tuple and len(result) == 5:
            observation, reward, terminated, truncated, info = result
        else:
            observation, reward, terminated, truncated, info = five_values(result)
        if type(reward) is not float:
            reward = plain_reward(reward)
        output = self.output
        output.start()
        text = (
            f'{{"id":{identity if type(identity) is int else json.dumps(identity)}'
            f',"obs":{encode(observation, output)}'
            f',"reward":{repr(reward) if reward - reward == 0.0 else NON_FINITE[repr(reward)]}'
            f',"terminated":{"true" if terminated else "false"},"truncated":{"true" if truncated else "false"}'
        )
        return output.finish(text, info)

    def reset(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        seed = request.get("seed")
        if seed is not None and (type(seed) is not int or not 0 <= seed < 2**53):
            raise ValueError(f"seed is {seed!r:.80}; expected null or an integer from 0 to 2**53-1")
        if not self.seeded and seed is not None:
            reseed_generators(seed)
            self.seeded = True
        observation, info = self.environment.reset(seed, decode(request.get("options"), raw))
        output = self.output
        output.start()
        return output.finish(f'{{"id":{json.dumps(identity)},"obs":{encode(observation, output)}', info)

    def call(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        name = name_of(request)
        if name in ("reset", "step", "close"):
            raise ValueError(f"call of {name!r}: use the pool's own {name}() instead, which keeps its seeds and episodes right")
        args = decode(request.get("args") or [], raw)
        kwargs = decode(request.get("kwargs") or {}, raw)
        found = get_attribute(self.environment.target, name)
        if callable(found):
            found = found(*args, **kwargs)
        elif args or kwargs:
            raise TypeError(f"{name!r} is a {type(found).__name__}, not a function; call it without arguments to read it")
        return self.result(identity, found)

    def get_value(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        return self.result(identity, get_attribute(self.environment.target, name_of(request)))

    def set_value(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        if "value" not in request:
            raise ValueError("set has no member value; expected the attribute's new value there")
        set_attribute(self.environment.target, name_of(request), decode(request["value"], raw))
        return self.result(identity, None)

    def has_name(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        name = name_of(request)
        return self.result(identity, any(hasattr(layer, name) for layer in layers(self.environment.target)))

    def is_wrapped(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes:
        path = name_of(request)
        wrappers = [layer for layer in layers(self.environment.target) if hasattr(layer, "env")]
        return self.result(identity, any(is_instance(layer, path) for layer in wrappers))

    def result(self, identity: Any, value: Any) -> bytes:
        output = self.output
        output.start()
        return output.finish(f'{{"id":{json.dumps(identity)},"result":{encode(value, output)}')


Row.HANDLERS.update(
    {"reset": Row.reset, "call": Row.call, "get": Row.get_value, "set": Row.set_value, "has": Row.has_name, "wrapped": Row.is_wrapped}
)
