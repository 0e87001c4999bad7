"""The one environment of a process, asked with the plain messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sandpool.env.attributes import call_by_name, get_attribute, has_attribute, is_wrapped, set_attribute
from sandpool.env.casting import caster_of
from sandpool.env.decoding import decode
from sandpool.env.describing import describe
from sandpool.env.encoding import NON_FINITE, Output, encode
from sandpool.env.environments import five_values, plain_reward
from sandpool.env.generators import reseed_generators
from sandpool.env.lines import name_of
from sandpool.env.stack import is_arrays

if TYPE_CHECKING:
    from typing import Any

    from sandpool.env.environments import Environment


class Row:
    """Each method answers one request; its errors are the session's to report."""

    operations = frozenset(("step", "reset", "call", "get", "set", "has", "wrapped", "measure"))
    packed = False

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.target = environment.target
        self.cast = caster_of(environment.action_space)
        self.arrays = is_arrays(getattr(environment.announced, "observation_space", None))
        self.seeded = False
        self.output = Output()

    @property
    def first(self) -> Environment:
        return self.environment

    def describe(self, features: tuple[str, ...]) -> str:
        return describe(self.environment.announced, features)

    def answer(self, operation: str, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        if operation == "step":
            return self.step(identity, request, raw)
        reply: bytes | list[Any] = getattr(self, operation)(identity, request, raw)
        return reply

    def reseed(self, seed: int) -> list[str]:
        return self.environment.reseed(seed)

    def close(self) -> None:
        if self.environment.close is not None:
            self.environment.close()

    def step(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        if "action" not in request:
            raise ValueError(f"step has no member action; received the members {', '.join(request)}")
        result = self.environment.step(self.cast(request["action"], raw))
        if type(result) is tuple and len(result) == 5:
            observation, reward, terminated, truncated, info = result
        else:
            observation, reward, terminated, truncated, info = five_values(result)
        if type(reward) is not float:
            reward = plain_reward(reward)
        output = self.output
        output.start(self.arrays)
        text = (
            f'{{"id":{identity if type(identity) is int else json.dumps(identity)}'
            f',"obs":{encode(observation, output)}'
            f',"reward":{repr(reward) if reward - reward == 0.0 else NON_FINITE[repr(reward)]}'
            f',"terminated":{"true" if terminated else "false"},"truncated":{"true" if truncated else "false"}'
        )
        return output.finish(text, info)

    def reset(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        seed = request.get("seed")
        check_seed(seed)
        if not self.seeded and seed is not None:
            reseed_generators(seed)
            self.seeded = True
        observation, info = self.environment.reset(seed, decode(request.get("options"), raw))
        output = self.output
        output.start(self.arrays)
        return output.finish(f'{{"id":{json.dumps(identity)},"obs":{encode(observation, output)}', info)

    def measure(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        from sandpool.env.measure import measure

        members = measure(self.environment)
        return (json.dumps({"id": identity, **members}) + "\n").encode()

    def call(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        args = decode(request.get("args") or [], raw)
        kwargs = decode(request.get("kwargs") or {}, raw)
        return self.result(identity, call_by_name(self.target, name_of(request), args, kwargs))

    def get(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        return self.result(identity, get_attribute(self.target, name_of(request)))

    def set(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        if "value" not in request:
            raise ValueError("set has no member value; expected the attribute's new value there")
        set_attribute(self.target, name_of(request), decode(request["value"], raw))
        return self.result(identity, None)

    def has(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        return self.result(identity, has_attribute(self.target, name_of(request)))

    def wrapped(self, identity: Any, request: dict[str, Any], raw: bytes) -> bytes | list[Any]:
        return self.result(identity, is_wrapped(self.target, name_of(request)))

    def result(self, identity: Any, value: Any) -> bytes | list[Any]:
        output = self.output
        output.start()
        return output.finish(f'{{"id":{json.dumps(identity)},"result":{encode(value, output)}')


def check_seed(seed: Any) -> None:
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**53):
        raise ValueError(f"seed is {seed!r:.80}; expected null or an integer from 0 to 2**53-1")
