"""Environments of the tests; the same file is imported here and sent into the sandbox."""

from __future__ import annotations

import os
import time
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """Dict and tuple observations and actions of every array space, episodes of random lengths, infos of every kind."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 7}

    def __init__(self, render_mode: str | None = None, stride: int = 1) -> None:
        self.render_mode = render_mode
        self.stride = stride
        self.level = 1
        self.observation_space = spaces.Dict(
            {
                "place": spaces.Box(-100, 100, (2,), np.int32),
                "seen": spaces.MultiBinary((2, 2)),
                "pair": spaces.Tuple((spaces.Discrete(9, start=2), spaces.Box(-np.inf, np.inf, (3, 1), np.float16))),
                "choice": spaces.MultiDiscrete([3, 4]),
            }
        )
        self.action_space = spaces.Dict({"turn": spaces.Discrete(4), "force": spaces.Box(-1, 1, (2,), np.float32)})

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place = self.np_random.integers(-3, 3, 2).astype(np.int32)
        self.left = int(self.np_random.integers(2, 12))
        return self._observe(), {"left": self.left, "options": options}

    def step(self, action: dict) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        assert type(action["turn"]) is np.int64
        self.place = self.place + np.int32(self.stride * int(action["turn"]))
        self.left -= 1
        chance = self.np_random.random()
        return self._observe(), float(action["force"].sum()), self.left <= 0, chance < 0.05, self._info(chance)

    def render(self) -> np.ndarray:
        return np.full((4, 5, 3), int(self.place[0]) % 256, np.uint8)

    def double(self, number: int, *, plus: int = 0) -> int:
        return 2 * number + plus

    def fail(self) -> None:
        raise ValueError("on purpose")

    def _observe(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "seen": self.np_random.integers(0, 2, (2, 2)).astype(np.int8),
            "pair": (np.int64(self.np_random.integers(2, 11)), self.np_random.random((3, 1)).astype(np.float16)),
            "choice": self.np_random.integers(0, 3, 2),
        }

    def _info(self, chance: float) -> dict[str, Any]:
        if chance < 0.3:
            return {}
        info = {"left": self.left, "chance": chance, "place": self.place.copy(), "name": f"at {self.left}"}
        return {**info, "deep": {"done": self.left <= 0, "n": np.float32(chance)}} if chance > 0.6 else info


class Picture(gymnasium.Env):
    """A frame, drawn into one buffer that is reused: the last frame of an episode must not be overwritten by the reset."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 30}
    observation_space = spaces.Box(0, 255, (12, 10, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def __init__(self, render_mode: str | None = "rgb_array", reuse: bool = False) -> None:
        self.render_mode = render_mode
        self.reuse = reuse
        self.buffer = np.zeros((12, 10, 3), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.steps = 0
        return self._draw(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        self.steps += 1 + int(action)
        return self._draw(), 0.5, self.steps > 20, self.steps == 13, {}

    def render(self) -> np.ndarray:
        return self.buffer.copy()

    def _draw(self) -> np.ndarray:
        self.buffer[:] = self.np_random.integers(0, 256, self.buffer.shape, np.uint8)
        self.buffer[0, 0, 0] = self.steps
        return self.buffer if self.reuse else self.buffer.copy()


class Faulty(gymnasium.Env):
    """Observation [episodes of this object, steps]; the action says what goes wrong, and so do a reset's options.

    Actions from 8 on end the episode, an even one terminates; what goes wrong in the reset after it is the action less 8.
    """

    observation_space = spaces.Box(-1, 1000, (2,), np.float32)
    action_space = spaces.Discrete(16)

    def __init__(self) -> None:
        self.episodes = 0
        self.next_fault = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self._misbehave(self.next_fault or (options or {}).get("fault", 0))
        self.episodes += 1
        self.steps = 0
        return self._observe(), {"fresh": self.episodes}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        self.steps += 1
        if action >= 8:
            self.next_fault = int(action) - 8
            return self._observe(), 2.5, action % 2 == 0, action % 2 == 1, {"last": self.steps}
        self._misbehave(int(action))
        return self._observe(), 1.0, action == 6, action == 7, {}

    def render(self) -> np.ndarray:
        return np.full((2, 3, 3), 255, np.uint8)

    def double(self, number: int) -> int:
        return 2 * number

    def _observe(self) -> np.ndarray:
        return np.array([self.episodes, self.steps], np.float32)

    def _misbehave(self, fault: int) -> None:
        if fault == 1:
            raise ValueError("on purpose")
        if fault == 2:
            os._exit(3)
        if fault == 3:
            time.sleep(3600)
        if fault == 4:
            time.sleep(0.6)


class Echo(gymnasium.Env):
    """One space for both: the observation is a sample, then the last action; its repr comes back in the info."""

    def __init__(self, space: str) -> None:
        self.observation_space = SPACES[space]
        self.action_space = SPACES[space]

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        plain = _plain(action)
        return action, 0.0, False, False, {"written": repr(plain), "kind": type(plain).__name__}


def _plain(action: Any) -> Any:
    """Gymnasium 0.29 iterates to an OrderedDict, 1.0 and the sandbox to a dict."""
    return {name: _plain(part) for name, part in action.items()} if isinstance(action, dict) else action


_PAIR = spaces.Box(0, 1, (2,), np.float32)
_ARRAYS = {
    "box_u1": spaces.Box(0, 255, (3,), np.uint8),
    "box_i2": spaces.Box(-9, 9, (1,), np.int16),
    "discrete": spaces.Discrete(5, start=-2),
    "multi_binary_2d": spaces.MultiBinary([2, 3]),
    "multi_discrete": spaces.MultiDiscrete([3, 1, 7]),
    "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Tuple((spaces.MultiBinary(2), spaces.Box(0, 1, (1,), np.float64))))),
}
SPACES: dict[str, spaces.Space] = {
    "box_f2": spaces.Box(-1, 1, (2, 3), np.float16),
    "box_f8": spaces.Box(-np.inf, np.inf, (), np.float64),
    "discrete": spaces.Discrete(5, start=-2),
    "multi_discrete": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "multi_binary": spaces.MultiBinary(4),
    "dict": spaces.Dict(_ARRAYS),
    "tuple": spaces.Tuple((spaces.Discrete(3), _PAIR)),
    "text": spaces.Text(6, min_length=1, charset="abcé"),
    "sequence": spaces.Sequence(_PAIR),
    "sequence_stacked": spaces.Sequence(_PAIR, stack=True),
    "graph": spaces.Graph(_PAIR, spaces.Discrete(4)),
    "dict_of_lists": spaces.Dict(
        {
            "graph_without_edges": spaces.Graph(_PAIR, None),
            "text": spaces.Text(4, charset="xyz"),
            "nested": spaces.Dict({"x": _PAIR, "d": spaces.Discrete(2)}),
            "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Sequence(spaces.Discrete(2)))),
        }
    ),
}
if hasattr(spaces, "OneOf"):
    SPACES["one_of"] = spaces.OneOf((spaces.Discrete(3), spaces.Box(0, 1, (2,), np.float32), spaces.Text(3, charset="uvw")))

for name in ("Walk", "Picture", "Faulty", "Echo"):
    if f"{name}-v0" not in gymnasium.registry:
        gymnasium.register(f"{name}-v0", entry_point=f"worlds:{name}", disable_env_checker=True)


class Returns(gymnasium.Env):
    """A step returns what it was made with."""

    def __init__(self, space: spaces.Space, value: Any) -> None:
        self.observation_space, self.action_space = space, spaces.Discrete(2)
        self.first, self.value = space.sample(), {"a": (value,)} if isinstance(space, spaces.Dict) else value

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[Any, dict]:
        return self.first, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        return self.value, 0.0, False, False, {}
