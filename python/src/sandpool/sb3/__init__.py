"""Sandpool's pools as Stable-Baselines3's VecEnv.

    from sandpool.sb3 import SB3VecEnv

    env = SB3VecEnv.from_gym("CartPole-v1", n=64)
    PPO("MlpPolicy", env).learn(100_000)

Stable-Baselines3, which brings torch, is imported when `SB3VecEnv` is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandpool.sb3.vec_env import SB3VecEnv

__all__ = ["SB3VecEnv"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'sandpool.sb3' has no attribute {name!r}")
    try:
        import_module("stable_baselines3")
    except ImportError as error:
        raise ImportError(
            f"SB3VecEnv needs stable-baselines3, which cannot be imported here ({error}); install it: pip install stable-baselines3"
        ) from error
    value: object = import_module("sandpool.sb3.vec_env").SB3VecEnv
    globals()[name] = value
    return value
