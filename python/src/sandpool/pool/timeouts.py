"""How long the server may be silent during a batch: more than the batch's own deadlines can add up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# A loaded host, a replacement on its way, a slow link.
_MARGIN_S = 60.0
_CLOSE_S = 120.0


@dataclass(frozen=True)
class Timeouts:
    """The deadlines of a pool, and how many times they can follow one another in a batch."""

    step_timeout: float
    reset_timeout: float
    start_timeout: float
    call_timeout: float
    waves: int

    @classmethod
    def of_options(cls, options: Mapping[str, Any], n: int) -> Timeouts:
        """Take them from RLPool's options."""
        in_flight = options.get("in_flight") or n
        step, reset, start, call = (float(options[f"{name}_timeout"]) for name in ("step", "reset", "start", "call"))
        return cls(step, reset, start, call, waves=-(-n // in_flight))

    @classmethod
    def of_limits(cls, description: Mapping[str, Any]) -> Timeouts:
        """Take them from a pool's description, as far as it has them."""
        defaults: dict[str, float] = {"step_timeout": 30, "reset_timeout": 60, "start_timeout": 120, "call_timeout": 30}
        return cls.of_options({**defaults, **description["limits"]}, description["n"])

    @property
    def step_s(self) -> float:
        """Longest step; with autoreset a reset follows it."""
        return self.waves * (self.step_timeout + self.reset_timeout) + _MARGIN_S

    @property
    def reset_s(self) -> float:
        """Longest reset: a replacement's start, and one repeat."""
        return self.waves * (self.start_timeout + 2 * self.reset_timeout) + _MARGIN_S

    @property
    def branch_s(self) -> float:
        """Longest fork, save or restore: a replacement's start, and the copy's own."""
        return self.waves * (2 * self.start_timeout + self.reset_timeout) + _MARGIN_S

    @property
    def close_s(self) -> float:
        """Longest close."""
        return _CLOSE_S

    def of_call_s(self, timeout: float | None) -> float:
        """Longest call."""
        return self.waves * (timeout or self.call_timeout) + _MARGIN_S
