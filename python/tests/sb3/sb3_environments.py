"""Environments of the tests, sent to the sandboxes as code of one's own."""

from __future__ import annotations

import os
import sys
import time
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Drawing(gymnasium.Env[Any, Any]):
    """Observations are drawn from the space with the environment's own generator, episodes end by chance, rewards come from actions."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], render_mode: str | None = None) -> None:
        # A copy: in one process, several environments would draw from one generator.
        self.observation_space = deepcopy(observation_space)
        self.action_space = action_space
        self.render_mode = render_mode
        self.options: dict[str, Any] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.options = options
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {"seed": seed, "draw": float(self.np_random.random())}

    def step(self, action: Any) -> Step:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        chance = self.np_random.random()
        reward = float(np.sum(action)) + int(chance * 64) / 64  # exact in float32 too, which DummyVecEnv keeps rewards in
        return self.observation_space.sample(), reward, bool(chance < 0.05), bool(0.03 < chance < 0.10), {"chance": chance}

    def render(self) -> Any:
        return np.full((4, 6, 3), 7, np.uint8)

    def scaled(self, value: float, *, factor: float = 1.0) -> float:
        return value * factor

    def loaded(self, module: str) -> bool:
        return module in sys.modules

    def broken(self) -> None:
        raise KeyError("on purpose")


class Failing(gymnasium.Env[Any, Any]):
    """Counts its steps; the actions 7, 8 and 9 raise, hang and exit, 6 truncates, 5 terminates."""

    observation_space = spaces.Box(0, 1e9, (2,), np.float32)
    action_space = spaces.Discrete(10)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {"seeded": seed is not None}

    def step(self, action: Any) -> Step:
        if action == 7:
            raise ValueError("on purpose")
        if action == 8:
            time.sleep(3600)
        if action == 9:
            os._exit(3)
        self.steps += 1
        return self._observation(), float(action), bool(action == 5), bool(action == 6), {"steps": self.steps}

    def _observation(self) -> Any:
        return np.array([os.getpid(), self.steps], np.float32)


def dict_space() -> spaces.Dict:
    return spaces.Dict(
        {
            "image": spaces.Box(0, 255, (3, 4, 1), np.uint8),
            "bits": spaces.MultiBinary(3),
            "choice": spaces.Discrete(5),
            "choices": spaces.MultiDiscrete([3, 4]),
            "vector": spaces.Box(-1, 1, (2,), np.float32),
        }
    )


def tuple_space() -> spaces.Tuple:
    return spaces.Tuple((spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(4)))


def box_space() -> spaces.Box:
    return spaces.Box(-2, 2, (3,), np.float32)
