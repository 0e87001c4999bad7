"""Pools as Gymnasium vector environments.

import gymnasium, sandpool.gymnasium
envs = sandpool.gymnasium.SandpoolVecEnv.from_gym("CartPole-v1", n=64)

sandpool.gymnasium.register("CartPole-v1")
envs = gymnasium.make_vec("Sandpool/CartPole-v1", num_envs=64)
"""

from sandpool.gymnasium.opaque import OpaqueSpace
from sandpool.gymnasium.registration import register, vector_entry_point
from sandpool.gymnasium.vec_env import SandpoolVecEnv
from sandpool.gymnasium.versions import AutoresetMode

__all__ = ["AutoresetMode", "OpaqueSpace", "SandpoolVecEnv", "register", "vector_entry_point"]
