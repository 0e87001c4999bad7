"""A pytest plugin for Gymnasium's own tests: `AsyncVectorEnv` becomes a pool, `SyncVectorEnv` stays the reference.

Run in a copy of Gymnasium's sources: ``pytest -p trainers.upstream.gymnasium_plugin tests/vector tests/wrappers/vector``.
`SANDPOOL_REPLACE=SyncVectorEnv` puts the pool in the other one's place.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import cloudpickle
import gymnasium
from gymnasium.vector import AutoresetMode

from sandpool.errors import SandpoolWarning
from sandpool.gymnasium import SandpoolVecEnv

# What the tests' modules import; Gymnasium's rendering needs pygame.
_NEEDED = ["pytest", "pygame"]
_REPLACED = os.environ.get("SANDPOOL_REPLACE", "AsyncVectorEnv")


class VectorEnvOfThunks:
    """What Gymnasium's constructors take, made into a pool."""

    def __new__(cls, env_fns: Any, *args: Any, autoreset_mode: Any = AutoresetMode.NEXT_STEP, copy: bool = True, **others: Any) -> Any:
        _by_value()
        return SandpoolVecEnv.from_fns(list(env_fns), autoreset_mode=autoreset_mode, copy=copy, requirements=_NEEDED, progress=False)


def _by_value() -> None:
    """Let the tests' own classes travel with the thunks, since their modules are not in the sandbox."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "tests" and hasattr(module, "__path__"):
            cloudpickle.register_pickle_by_value(module)


def pytest_configure(config: Any) -> None:
    """Put the pool in place before the tests' modules are imported."""
    warnings.simplefilter("ignore", SandpoolWarning)
    module = {"AsyncVectorEnv": "async_vector_env", "SyncVectorEnv": "sync_vector_env"}[_REPLACED]
    for place in (gymnasium.vector, getattr(gymnasium.vector, module)):
        setattr(place, _REPLACED, VectorEnvOfThunks)
