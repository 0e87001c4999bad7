"""Sandpool's Python client: pools of isolated reinforcement-learning environments.

Names are imported when first used, so that ``from sandpool.env import serve`` inside an environment costs neither numpy
nor an HTTP client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandpool.aio.pool import AsyncRLPool
    from sandpool.errors import (
        AuthenticationError,
        ConnectionLostError,
        EnvironmentFailedError,
        ForkUnsupportedError,
        InvalidTypeError,
        InvalidValueError,
        LimitError,
        NoServerError,
        NotFoundError,
        NotReadyError,
        NotSupportedError,
        PoolBusyError,
        PoolClosedError,
        PoolLostError,
        PoolSequenceError,
        ReplyError,
        RequestRefusedError,
        RowsFailedError,
        SandpoolError,
        SandpoolWarning,
        ServerFailedError,
        ServerTimeoutError,
        StateLostError,
        StateNotFoundError,
    )
    from sandpool.pool.result import CallResult, StepResult
    from sandpool.pool.rlpool import RLPool
    from sandpool.pool.state import State
    from sandpool.stream.results import ReceivedResult

__version__ = "0.1.0"

__all__ = [
    "AsyncRLPool",
    "AuthenticationError",
    "CallResult",
    "ConnectionLostError",
    "EnvironmentFailedError",
    "ForkUnsupportedError",
    "InvalidTypeError",
    "InvalidValueError",
    "LimitError",
    "NoServerError",
    "NotFoundError",
    "NotReadyError",
    "NotSupportedError",
    "PoolBusyError",
    "PoolClosedError",
    "PoolLostError",
    "PoolSequenceError",
    "RLPool",
    "ReceivedResult",
    "ReplyError",
    "RequestRefusedError",
    "RowsFailedError",
    "SandpoolError",
    "SandpoolWarning",
    "ServerFailedError",
    "ServerTimeoutError",
    "State",
    "StateLostError",
    "StateNotFoundError",
    "StepResult",
    "__version__",
]

_HOMES = {
    "RLPool": "sandpool.pool.rlpool",
    "StepResult": "sandpool.pool.result",
    "CallResult": "sandpool.pool.result",
    "ReceivedResult": "sandpool.stream.results",
    "AsyncRLPool": "sandpool.aio.pool",
    "State": "sandpool.pool.state",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'sandpool' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES.get(name, "sandpool.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
