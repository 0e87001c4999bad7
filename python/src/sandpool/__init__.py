"""Sandpool's Python client: pools of isolated reinforcement-learning environments, and machines, long-lived sandboxes.

Names are imported when first used, so that ``from sandpool.env import serve`` inside an environment costs neither numpy
nor an HTTP client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandpool.aio.pool import AsyncRLPool
    from sandpool.aio.sandbox import AsyncSandbox
    from sandpool.aio.sandpool import AsyncSandpool
    from sandpool.client.sandpool import Sandpool
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
    from sandpool.execs.result import ExecResult
    from sandpool.execs.stream import ExecEvent, ExecStream
    from sandpool.files.entries import FileChange, FileEntry
    from sandpool.images.images import Image
    from sandpool.machines.description import Machine, MachineFate
    from sandpool.machines.errors import (
        ExecFailedError,
        ExecNotFoundError,
        ImageFailedError,
        ImageInUseError,
        ImageNotFoundError,
        MachineFileError,
        MachineFileExistsError,
        MachineFileNotFoundError,
        MachineLostError,
        MachineNotFoundError,
        MachinePermissionError,
        MachineStateError,
        PortRefusedError,
    )
    from sandpool.pool.result import CallResult, StepResult
    from sandpool.pool.rlpool import RLPool
    from sandpool.pool.state import State
    from sandpool.sandbox.sandbox import Sandbox
    from sandpool.stream.results import ReceivedResult

__version__ = "0.1.0"

__all__ = [
    "AsyncRLPool",
    "AsyncSandbox",
    "AsyncSandpool",
    "AuthenticationError",
    "CallResult",
    "ConnectionLostError",
    "EnvironmentFailedError",
    "ExecEvent",
    "ExecFailedError",
    "ExecNotFoundError",
    "ExecResult",
    "ExecStream",
    "FileChange",
    "FileEntry",
    "ForkUnsupportedError",
    "Image",
    "ImageFailedError",
    "ImageInUseError",
    "ImageNotFoundError",
    "InvalidTypeError",
    "InvalidValueError",
    "LimitError",
    "Machine",
    "MachineFate",
    "MachineFileError",
    "MachineFileExistsError",
    "MachineFileNotFoundError",
    "MachineLostError",
    "MachineNotFoundError",
    "MachinePermissionError",
    "MachineStateError",
    "NoServerError",
    "NotFoundError",
    "NotReadyError",
    "NotSupportedError",
    "PoolBusyError",
    "PoolClosedError",
    "PoolLostError",
    "PoolSequenceError",
    "PortRefusedError",
    "RLPool",
    "ReceivedResult",
    "ReplyError",
    "RequestRefusedError",
    "RowsFailedError",
    "Sandbox",
    "Sandpool",
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
    "AsyncSandbox": "sandpool.aio.sandbox",
    "AsyncSandpool": "sandpool.aio.sandpool",
    "Sandbox": "sandpool.sandbox.sandbox",
    "Sandpool": "sandpool.client.sandpool",
    "ExecResult": "sandpool.execs.result",
    "ExecEvent": "sandpool.execs.stream",
    "ExecStream": "sandpool.execs.stream",
    "Machine": "sandpool.machines.description",
    "MachineFate": "sandpool.machines.description",
    "FileEntry": "sandpool.files.entries",
    "FileChange": "sandpool.files.entries",
    "Image": "sandpool.images.images",
    "ExecFailedError": "sandpool.machines.errors",
    "ExecNotFoundError": "sandpool.machines.errors",
    "ImageFailedError": "sandpool.machines.errors",
    "ImageInUseError": "sandpool.machines.errors",
    "ImageNotFoundError": "sandpool.machines.errors",
    "MachineFileError": "sandpool.machines.errors",
    "MachineFileExistsError": "sandpool.machines.errors",
    "MachineFileNotFoundError": "sandpool.machines.errors",
    "MachineLostError": "sandpool.machines.errors",
    "MachineNotFoundError": "sandpool.machines.errors",
    "MachinePermissionError": "sandpool.machines.errors",
    "MachineStateError": "sandpool.machines.errors",
    "PortRefusedError": "sandpool.machines.errors",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'sandpool' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES.get(name, "sandpool.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
