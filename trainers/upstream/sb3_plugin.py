"""A pytest plugin for Stable-Baselines3's own tests: `SubprocVecEnv` becomes a pool, `DummyVecEnv` stays the reference.

Run in a copy of its sources: ``pytest -p trainers.upstream.sb3_plugin tests/test_vec_envs.py``.
"""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from typing import Any

import cloudpickle
import stable_baselines3.common.vec_env as vec_env

from sandpool.errors import SandpoolWarning
from sandpool.sb3 import SB3VecEnv


class VecEnvOfThunks:
    """What SubprocVecEnv's constructor takes, made into a pool."""

    def __new__(cls, env_fns: Any, start_method: str | None = None) -> Any:
        multiprocessing.get_context(start_method)  # refuses an unknown one in its own words
        # The test's own classes are not in the sandbox, so that they travel with the thunks.
        for module in [module for name, module in sys.modules.items() if name.endswith("test_vec_envs")]:
            cloudpickle.register_pickle_by_value(module)
        return SB3VecEnv.from_fns(list(env_fns), progress=False)


def pytest_configure(config: Any) -> None:
    """Put the pool in place before the tests' module is imported."""
    warnings.simplefilter("ignore", SandpoolWarning)
    vec_env.SubprocVecEnv = VecEnvOfThunks  # type: ignore[misc]
