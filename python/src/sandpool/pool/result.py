"""What a step and a call return."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

RowErrors = dict[int, dict[str, Any]]
Flags = npt.NDArray[np.bool_]


class _Columns(NamedTuple):
    obs: Any
    rewards: npt.NDArray[np.float64]
    dones: Flags
    infos: list[dict[str, Any]]


class StepResult(_Columns):
    """Result of a step; unpacks to ``(obs, rewards, dones, infos)``, each with n rows in index order.

    Attributes:
        obs: one array ``(n, …)``, or a dict or tuple of arrays, or in a list pool a list of n values.
        rewards: float64 ``(n,)``.
        dones: bool ``(n,)``, terminated or truncated.
        infos: list of n dicts.
        terminated: bool ``(n,)``.
        truncated: bool ``(n,)``.
        errors: dict of row index to its error, only for rows that failed.
    """

    terminated: Flags
    truncated: Flags
    errors: RowErrors

    @classmethod
    def of(
        cls, obs: Any, rewards: npt.NDArray[np.float64], terminated: Flags, truncated: Flags, infos: list[dict[str, Any]], errors: RowErrors
    ) -> StepResult:
        """Make a result from its columns."""
        result = cls(obs, rewards, terminated | truncated, infos)
        result.terminated = terminated
        result.truncated = truncated
        result.errors = errors
        return result


class CallResult(list[Any]):
    """Results of a call: a list of n values, None for rows that failed or were not selected.

    Attributes:
        errors: dict of row index to its error, only for rows whose call failed.
    """

    errors: RowErrors

    def __init__(self, values: list[Any], errors: RowErrors) -> None:
        super().__init__(values)
        self.errors = errors
