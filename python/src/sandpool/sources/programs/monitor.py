"""Episode statistics made inside the sandbox, those of Stable-Baselines3's Monitor without its dependencies."""

from __future__ import annotations

import time
from typing import Any

import gymnasium


class Monitor(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Add ``info["episode"] = {"r": return, "l": length, "t": seconds since the start}`` to the last step of each episode.

    Sum and rounding are those of ``stable_baselines3.common.monitor.Monitor``, and so are the methods.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.t_start = time.time()
        self.rewards: list[float] = []
        self.needs_reset = True
        self.episode_returns: list[float] = []
        self.episode_lengths: list[int] = []
        self.episode_times: list[float] = []
        self.total_steps = 0

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, whether or not the last one had ended."""
        self.rewards = []
        self.needs_reset = False
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and tell the episode's statistics with its last step."""
        if self.needs_reset:
            raise RuntimeError("Tried to step environment that needs reset")
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.rewards.append(float(reward))
        if terminated or truncated:
            self.needs_reset = True
            self._end_episode(info)
        self.total_steps += 1
        return observation, reward, terminated, truncated, info

    def _end_episode(self, info: dict[str, Any]) -> None:
        # sum() over the list, and not a running total: newer Pythons add up more exactly.
        episode_return, length, elapsed = sum(self.rewards), len(self.rewards), time.time() - self.t_start
        self.episode_returns.append(episode_return)
        self.episode_lengths.append(length)
        self.episode_times.append(elapsed)
        info["episode"] = {"r": round(episode_return, 6), "l": length, "t": round(elapsed, 6)}

    def get_total_steps(self) -> int:
        """Return the number of steps of all episodes."""
        return self.total_steps

    def get_episode_rewards(self) -> list[float]:
        """Return the returns of all episodes."""
        return self.episode_returns

    def get_episode_lengths(self) -> list[int]:
        """Return the lengths of all episodes."""
        return self.episode_lengths

    def get_episode_times(self) -> list[float]:
        """Return when each episode ended, in seconds since the start."""
        return self.episode_times
