"""What a vectorised environment says of itself."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_MODES = {"nextstep": "next_step", "samestep": "same_step", "disabled": None}


def mode_of(environment: Any) -> str | None:
    """Its autoreset mode, `next_step`, `same_step` or None; raises TypeError where it cannot be known.

    From `metadata["autoreset_mode"]` or the attribute `autoreset_mode`, each an enum member or its text. Without either Gymnasium
    1.0 resets with the next step and older versions in the same one (its release notes of 1.0.0 and 1.1.0), EnvPool with the next.
    """
    metadata = getattr(environment, "metadata", None)
    said = metadata.get("autoreset_mode") if isinstance(metadata, dict) else None
    if said is None:
        said = getattr(environment, "autoreset_mode", None)
    if said is None and is_envpool(environment):
        return "next_step"
    if said is None and _is_gymnasium(environment):
        return "same_step" if sys.modules["gymnasium"].__version__.startswith("0.") else "next_step"
    text = str(getattr(said, "value", said)).replace("_", "").lower()
    if text not in _MODES:
        raise TypeError(
            f"{type(environment).__name__} says autoreset_mode={said!r:.80}; set its metadata['autoreset_mode'] "
            "to 'next_step', 'same_step' or 'disabled', whichever it does"
        )
    return _MODES[text]


def is_envpool(environment: Any) -> bool:
    return any(cls.__module__.split(".")[0] == "envpool" for cls in type(environment).__mro__)


def _is_gymnasium(environment: Any) -> bool:
    vector = sys.modules.get("gymnasium.vector")
    return vector is not None and isinstance(environment, vector.VectorEnv)
