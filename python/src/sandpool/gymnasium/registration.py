"""The way from `gymnasium.make_vec` to a pool."""

from __future__ import annotations

import functools
import re
from typing import Any

import gymnasium

from sandpool.gymnasium.vec_env import SandpoolVecEnv
from sandpool.gymnasium.versions import BEFORE_1

ENTRY_POINT = "sandpool.gymnasium:vector_entry_point"


def vector_entry_point(num_envs: int = 1, *, env_id: str, **kwargs: Any) -> SandpoolVecEnv:
    """Make `num_envs` environments of `env_id`; `kwargs` are those of `SandpoolVecEnv.from_gym`.

    In `gymnasium.register` write ``vector_entry_point="sandpool.gymnasium:vector_entry_point", kwargs={"env_id": "CartPole-v1"}``.
    """
    return SandpoolVecEnv.from_gym(env_id, num_envs, **kwargs)


def register(env_id: str, *, as_id: str | None = None, **kwargs: Any) -> str:
    """Register an environment's pool, so that ``gymnasium.make_vec("Sandpool/CartPole-v1", num_envs=8)`` makes it; return the new id.

    Args:
        env_id: what the sandbox gives to `gymnasium.make`; it need not be registered here.
        as_id: the new id. None: ``"Sandpool/"`` and the old one without its module and namespace.
        kwargs: defaults for `SandpoolVecEnv.from_gym`; those given to `make_vec` go before them.

    Example:
        >>> register("CartPole-v1", step_timeout=5)  # doctest: +SKIP
        'Sandpool/CartPole-v1'

    Gymnasium 0.29 needs ``make_vec(…, vectorization_mode="custom")`` and hands on only `vector_kwargs`.
    """
    new_id = as_id or f"Sandpool/{re.split('[/:]', env_id)[-1]}"
    fixed = {"env_id": env_id, **kwargs}
    if BEFORE_1:
        entry: Any = functools.partial(_entry_point_of_0_29, fixed)
        gymnasium.register(new_id, vector_entry_point=entry)
    else:
        gymnasium.register(new_id, vector_entry_point=ENTRY_POINT, kwargs=fixed)
    return new_id


def _entry_point_of_0_29(fixed: dict[str, Any], num_envs: int = 1, **kwargs: Any) -> SandpoolVecEnv:
    """Leave out the limit, which Gymnasium 0.29 hands over also when there is none."""
    given = {name: value for name, value in kwargs.items() if not (name == "max_episode_steps" and value is None)}
    return vector_entry_point(num_envs, **{**fixed, **given})
